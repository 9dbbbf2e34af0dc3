"""From an upright picture to the square that an encoder sees, and where that square lies in the picture."""

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from captioning.errors import ImageError
from captioning.features.geometry import Box, Placement
from captioning.features.preprocessing import Preprocessing

_RESAMPLING = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "nearest": Image.Resampling.NEAREST,
}


@dataclass(frozen=True)
class ImageTransform:
    """(pixel / 255 − mean) / deviation of the fitted square, channels first."""

    preprocessing: Preprocessing
    """Size, fit and normalization, as the encoder was trained."""

    def __call__(self, image: Image.Image) -> tuple[Tensor, Placement]:
        """The (3, S, S) float32 input of the encoder, and where it lies in `image`."""
        square, placement = fit_square(image, self.preprocessing)
        pixels = np.asarray(square, dtype=np.float32) / 255
        mean = np.asarray(self.preprocessing.mean, dtype=np.float32)
        normalized = (pixels - mean) / np.asarray(self.preprocessing.deviation, dtype=np.float32)
        return torch.from_numpy(normalized.transpose(2, 0, 1).copy()), placement


def fit_square(image: Image.Image, preprocessing: Preprocessing) -> tuple[Image.Image, Placement]:
    """The S x S picture that the encoder sees, and where it lies in `image` (upright RGB, from `load_image`).

    crop: the centre square whose side is crop_fraction of the shorter side. squash: all of it, stretched.
    pad: all of it, its proportions kept to the pixel, on a square of the mean colour (0 after normalization).
    Each is one resampling, so the placement is exact.
    """
    if image.mode != "RGB":
        raise ImageError(f"picture: expected mode RGB, got {image.mode}; read it with load_image")
    placement, size = place(*image.size, preprocessing), preprocessing.size
    if preprocessing.fit == "pad":
        return _pad(image, preprocessing), placement
    return image.resize((size, size), _RESAMPLING[preprocessing.interpolation], box=placement.box), placement


def place(width: int, height: int, preprocessing: Preprocessing) -> Placement:
    """Where the encoder's square lies in an upright picture of this size."""
    if preprocessing.fit == "pad":
        box = _padded_square(width, height, preprocessing.size)
    elif preprocessing.fit == "squash":
        box = Box(0.0, 0.0, float(width), float(height))
    else:
        box = _centre_square(width, height, preprocessing.crop_fraction)
    return Placement(width, height, box)


def _centre_square(width: int, height: int, fraction: float) -> Box:
    side = fraction * min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return Box(left, top, left + side, top + side)


def _inner(width: int, height: int, size: int) -> tuple[int, int, int, int]:
    """Width, height, left and top of a padded picture within the square."""
    inner_width, inner_height = (max(1, round(size * side / max(width, height))) for side in (width, height))
    return inner_width, inner_height, (size - inner_width) // 2, (size - inner_height) // 2


def _padded_square(width: int, height: int, size: int) -> Box:
    inner_width, inner_height, left, top = _inner(width, height, size)
    # One pixel of the square is this many pixels of the picture; the sides differ by the rounding of the inner ones.
    across, down = width / inner_width, height / inner_height
    return Box(-left * across, -top * down, (size - left) * across, (size - top) * down)


def _pad(image: Image.Image, preprocessing: Preprocessing) -> Image.Image:
    size = preprocessing.size
    width, height, left, top = _inner(*image.size, size)
    square = Image.new("RGB", (size, size), tuple(round(255 * level) for level in preprocessing.mean))
    square.paste(image.resize((width, height), _RESAMPLING[preprocessing.interpolation]), (left, top))
    return square
