"""What a decoder is given of a picture: region vectors on a grid."""

from dataclasses import dataclass

from torch import Tensor

from captioning.errors import ShapeError


@dataclass(frozen=True)
class ImageFeatures:
    """The regions of B pictures, row by row: region r is cell (r // columns, r % columns)."""

    regions: Tensor
    """(B, R, D) region vectors."""
    rows: int
    """Rows of the grid; rows * columns = R."""
    columns: int
    """Columns of the grid."""
    mask: Tensor | None = None
    """(B, R) boolean, True where a region exists; None: all exist."""

    def __post_init__(self) -> None:
        if self.regions.dim() != 3 or self.regions.shape[1] != self.rows * self.columns:
            raise ShapeError(
                f"regions: expected (B, R, D) with R = {self.rows} x {self.columns}, got {tuple(self.regions.shape)}"
            )

    def __len__(self) -> int:
        return self.regions.shape[0]

    def rows_of(self, images: Tensor) -> "ImageFeatures":
        """The features of the pictures `images` (any number of indices into B)."""
        mask = None if self.mask is None else self.mask[images]
        return ImageFeatures(self.regions[images], self.rows, self.columns, mask)
