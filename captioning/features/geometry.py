"""Where the model's square input lies in the original picture, and so where each cell of its grid lies."""

from dataclasses import dataclass
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle in pixels; x runs right, y runs down, edges lie between pixels (a picture is 0..width, 0..height)."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Placement:
    """The part of the upright original picture that the model's input shows.

    Resizing, cropping and letterboxing are all one linear map, so the box says everything: inside the picture for a
    crop, the whole picture when it was squashed, wider than the picture where it was padded.
    """

    width: int
    """Width of the upright original picture, in pixels."""
    height: int
    """Height of the upright original picture, in pixels."""
    box: Box
    """The model's input, in pixels of the original picture; may reach outside where it was padded."""

    def cell(self, row: int, column: int, *, rows: int, columns: int) -> Box:
        """The box of cell (row, column) of a rows x columns grid, in pixels of the original picture."""
        cell_width = (self.box.right - self.box.left) / columns
        cell_height = (self.box.bottom - self.box.top) / rows
        left = self.box.left + column * cell_width
        top = self.box.top + row * cell_height
        return Box(left, top, left + cell_width, top + cell_height)
