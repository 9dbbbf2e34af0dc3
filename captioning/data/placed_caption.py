"""A caption whose words have a place in the picture."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from captioning.errors import DataError
from captioning.features.geometry import Box

Tokenize = Callable[[str], list[str]]


@dataclass(frozen=True)
class PlacedCaption:
    """The words of a caption, as a vocabulary cuts it, and where in the picture what they name can be seen."""

    words: tuple[str, ...]
    """T words."""
    boxes: tuple[tuple[Box, ...], ...]
    """For each word the boxes of its object or objects, in pixels; none: it has no place."""
    size: tuple[int, int]
    """Width and height of the picture in which the boxes were drawn."""

    def __post_init__(self) -> None:
        if len(self.words) != len(self.boxes) or min(self.size) < 1:
            raise DataError(
                f"places: expected boxes for each of {len(self.words)} words in a picture of some size, got "
                f"{len(self.boxes)} in {self.size}"
            )

    def boxes_of(self, position: int) -> Sequence[Box]:
        """Those of a word; none for the end of the caption."""
        return self.boxes[position] if position < len(self.boxes) else ()
