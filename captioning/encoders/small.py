"""A small encoder for drawn pictures; a region sees one cell only, so that attention has a right answer."""

from typing import Any

import torch
from torch import Tensor, nn

from captioning.encoders.fingerprint import fingerprint
from captioning.errors import ConfigError, ShapeError
from captioning.features.image_features import ImageFeatures
from captioning.features.preprocessing import Preprocessing


class CellEncoder(nn.Module):
    """Each cell of a grid by itself, through one small convolutional network, with its place appended.

    A cell is cut out before the first convolution, so that region r depends on the pixels of cell r alone.
    The last rows + columns + 2 channels of a region say where it is: its row and its column, each as one of
    many and as a number between −1 and 1. What is in a cell and where it is meet in no channel, so that the
    mean of the regions stays the same however the cells are shuffled. Trained together with the decoder.

    The content is narrow: enough for one object, too little for the colours and shapes of two of them side by side,
    so that the mean region does not tell what a picture shows and a decoder has to look. It is normalized cell by
    cell, without which the first steps of training see the places and hardly anything of the content.
    """

    name = "cells"
    layer = "cells"

    def __init__(
        self, *, rows: int = 6, columns: int = 6, cell: int = 16, channels: int = 8, content: int = 12
    ) -> None:
        """`cell` is the side of a cell in pixels, a multiple of 4; `content` the width besides the place."""
        super().__init__()
        if rows != columns or cell % 4:
            raise ConfigError(
                f"cell encoder: expected as many rows as columns and cells of a multiple of 4 pixels, "
                f"got {rows} x {columns} cells of {cell}"
            )
        self.rows, self.columns, self.cell = rows, columns, cell
        self.channels, self.content = channels, content
        self.preprocessing = Preprocessing(size=rows * cell, mean=(0.25,) * 3, deviation=(0.25,) * 3, fit="squash")
        self.network = nn.Sequential(
            nn.Conv2d(3, channels, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * channels * (cell // 4) ** 2, content),
            nn.LayerNorm(content),
            nn.ReLU(),
        )
        self.place: Tensor
        self.register_buffer("place", _places(rows, columns), persistent=False)

    @property
    def width(self) -> int:
        """D, the width of a region."""
        return self.content + self.rows + self.columns + 2

    def forward(self, pixels: Tensor) -> ImageFeatures:
        """Regions (B, R, D), row by row, of pixels (B, 3, S, S)."""
        size = self.preprocessing.size
        if pixels.dim() != 4 or pixels.shape[1:] != (3, size, size):
            raise ShapeError(f"pixels: expected (B, 3, {size}, {size}), got {tuple(pixels.shape)}")
        grid = pixels.unflatten(3, (self.columns, self.cell)).unflatten(2, (self.rows, self.cell))
        cells = grid.permute(0, 2, 4, 1, 3, 5).flatten(0, 2)  # (B * R, 3, cell, cell)
        content = self.network(cells).unflatten(0, (len(pixels), -1))
        place = self.place.expand(len(pixels), -1, -1)
        return ImageFeatures(torch.cat([content, place.to(content.dtype)], dim=-1), self.rows, self.columns)

    def fingerprint(self) -> str:
        """Sha256 of name, layer and weights: equal only where the features are."""
        return fingerprint(self.name, self.layer, self.state_dict())

    def to_dict(self) -> dict[str, Any]:
        """Plain types from which `CellEncoder(**values)` makes this encoder again, but for its weights."""
        names = ("rows", "columns", "cell", "channels", "content")
        return {name: getattr(self, name) for name in names}


def _places(rows: int, columns: int) -> Tensor:
    """(R, rows + columns + 2) the row and the column of each cell."""
    row, column = (axis.flatten() for axis in torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"))
    numbers = torch.stack([2 * row / max(rows - 1, 1) - 1, 2 * column / max(columns - 1, 1) - 1], dim=-1)
    return torch.cat([torch.eye(rows)[row], torch.eye(columns)[column], numbers], dim=-1)
