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
    size, resampling = preprocessing.size, _RESAMPLING[preprocessing.interpolation]
    if preprocessing.fit == "pad":
        return _pad(image, preprocessing)
    box = _whole(image) if preprocessing.fit == "squash" else _centre_square(image, preprocessing.crop_fraction)
    return image.resize((size, size), resampling, box=box), Placement(*image.size, box)


def _whole(image: Image.Image) -> Box:
    return Box(0.0, 0.0, float(image.width), float(image.height))


def _centre_square(image: Image.Image, fraction: float) -> Box:
    side = fraction * min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    return Box(left, top, left + side, top + side)


def _pad(image: Image.Image, preprocessing: Preprocessing) -> tuple[Image.Image, Placement]:
    size, longer = preprocessing.size, max(image.size)
    width, height = (max(1, round(size * side / longer)) for side in image.size)
    left, top = (size - width) // 2, (size - height) // 2
    square = Image.new("RGB", (size, size), tuple(round(255 * level) for level in preprocessing.mean))
    square.paste(image.resize((width, height), _RESAMPLING[preprocessing.interpolation]), (left, top))
    # One pixel of the square is this many pixels of the picture; the sides differ by the rounding above.
    across, down = image.width / width, image.height / height
    box = Box(-left * across, -top * down, (size - left) * across, (size - top) * down)
    return square, Placement(*image.size, box)
