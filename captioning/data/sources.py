"""Where the pictures of a batch come from: a feature store, picture files, or arrays in memory.

What a source draws at random comes from the generators that it is handed, one a picture, seeded by (seed,
epoch, picture): neither the worker nor the rest of the batch matters, and a run repeats exactly. Mirroring
makes "left" and "right" in captions false, so it is off by default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from captioning.data.records import CaptionedImage
from captioning.data.transforms import ImageTransform
from captioning.errors import DataError
from captioning.features.image_features import ImageFeatures
from captioning.features.preprocessing import Preprocessing

Draws = Sequence[np.random.Generator]


class Pictures(Protocol):
    """What `CaptionDataset` asks of a source."""

    def read(self, images: Sequence[CaptionedImage], draws: Draws | None) -> ImageFeatures | Tensor:
        """Features of B pictures or their pixels (B, 3, S, S), in order; `draws` None: nothing random."""


class FeatureReader(Protocol):
    """What `StoredFeatures` asks of a feature store."""

    def read(self, image_ids: Sequence[str], view: int | Sequence[int] = 0) -> ImageFeatures:
        """The features of the pictures, in order, in one view (0: as it is) or in one each."""


@dataclass(frozen=True)
class StoredFeatures:
    """Features that an encoder wrote once; a whole batch is read at once."""

    store: FeatureReader
    """The opened store."""
    views: int = 1
    """Views of each picture that training draws from, such as 2 where mirror images are stored too."""

    def read(self, images: Sequence[CaptionedImage], draws: Draws | None) -> ImageFeatures:
        """Some view of each picture; view 0 without draws."""
        ids = [image.image_id for image in images]
        if draws is None or self.views == 1:
            return self.store.read(ids)
        return self.store.read(ids, [int(draw.integers(self.views)) for draw in draws])


@dataclass(frozen=True)
class PictureFiles:
    """Pictures opened each time they are asked for, for encoders that are tuned or see mirror images."""

    preprocessing: Preprocessing
    """How the encoder wants its pixels."""
    mirror: bool = False
    """Whether training turns half of the pictures around."""

    def read(self, images: Sequence[CaptionedImage], draws: Draws | None) -> Tensor:
        """Pixels (B, 3, S, S)."""
        transform = ImageTransform(self.preprocessing)
        pixels = torch.stack([transform(image.load())[0] for image in images])
        return _mirror_some(pixels, draws) if self.mirror and draws is not None else pixels


@dataclass(frozen=True)
class PictureArrays:
    """Pictures that are in memory already, such as drawn ones."""

    pixels: np.ndarray
    """(N, S, S, 3) uint8."""
    places: Mapping[str, int]
    """image_id -> its row of `pixels`."""
    preprocessing: Preprocessing
    """How the encoder wants its pixels; its size is S."""

    def __post_init__(self) -> None:
        side = self.preprocessing.size
        if self.pixels.dtype != np.uint8 or self.pixels.shape[1:] != (side, side, 3):
            found = f"{self.pixels.shape} {self.pixels.dtype}"
            raise DataError(f"pixels: expected (N, {side}, {side}, 3) uint8, got {found}")

    def read(self, images: Sequence[CaptionedImage], draws: Draws | None) -> Tensor:
        """Pixels (B, 3, S, S)."""
        rows = [self.places[image.image_id] for image in images]
        scaled = torch.from_numpy(self.pixels[rows]).permute(0, 3, 1, 2).float() / 255
        mean = torch.tensor(self.preprocessing.mean).view(3, 1, 1)
        deviation = torch.tensor(self.preprocessing.deviation).view(3, 1, 1)
        return (scaled - mean) / deviation


def _mirror_some(pixels: Tensor, draws: Draws) -> Tensor:
    turned = torch.tensor([bool(draw.integers(2)) for draw in draws]).view(-1, 1, 1, 1)
    return torch.where(turned, pixels.flip(-1), pixels)
