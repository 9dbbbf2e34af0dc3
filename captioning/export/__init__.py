"""A captioner for other programs: two graphs without this package, and a plain loop that captions with them."""
