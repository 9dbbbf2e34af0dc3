"""One training run, from a config to its folder."""
