"""A word's weights over the original picture, in their right place.

A weight is the size of a region's contribution to the context vector. It is not a probability that the word
is right, and alone it is no explanation of why the model said it.
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from captioning.errors import ConfigError, ShapeError
from captioning.features.geometry import Box, Placement
from captioning.viz.colors import check_color_map, colorize
from captioning.viz.upsampling import upsample

NORMALIZATIONS = ("word", "caption")
UNSEEN_COLOR = (72, 72, 76)
"""Lies over the part of the picture that the model was not given: a neutral grey, unlike any weight."""

_CLEARING = 0.5  # at most 1/2 keeps a larger weight brighter, on a black picture too


@dataclass(frozen=True)
class MapStyle:
    """How a map is laid over a picture."""

    color_map: str = "inferno"
    """A name in `captioning.viz.colors.COLOR_MAPS`."""
    opacity: float = 0.7
    """Of the colour at weight 0, in [0, 1]; it falls to half of this at the largest weight, so that what was
    attended shows through."""
    smooth: bool = True
    """Curves through the weights at the cells' centres; otherwise each cell is one flat block."""
    normalization: str = "word"
    """The weight that gets the end of the colour map (0 always gets its beginning). word: each word's own
    largest, so that every map shows; caption: the caption's largest, so that words can be compared."""

    def __post_init__(self) -> None:
        check_color_map(self.color_map)
        if not 0 <= self.opacity <= 1:
            raise ConfigError(f"opacity: expected 0 to 1, got {self.opacity}")
        if self.normalization not in NORMALIZATIONS:
            expected = " or ".join(NORMALIZATIONS)
            raise ConfigError(f"map normalization: expected {expected}, got {self.normalization!r}")

    def maxima(self, maps: np.ndarray) -> np.ndarray:
        """(T,): the weight that gets the end of the colour map in each of `maps` (T, rows, columns)."""
        largest = maps.max(axis=(1, 2))
        if self.normalization == "word":
            return largest
        return np.full(len(maps), largest.max(initial=0.0))


DEFAULT_STYLE = MapStyle()


def overlay(
    image: Image.Image,
    weights: np.ndarray,
    placement: Placement,
    style: MapStyle = DEFAULT_STYLE,
    *,
    maximum: float | None = None,
) -> Image.Image:
    """The upright original picture (RGB) with one word's map over it; its size is the picture's.

    weights: (rows, columns), any grid, finite and not negative.
    placement: where the model's input lies in the picture; what lies outside that is greyed.
    maximum: the weight that gets the end of the colour map (`MapStyle.maxima`); None: the map's own largest.
    """
    check_size(image, placement)
    layer = map_layer(weights, placement, image.size, style, maximum=maximum)
    return Image.alpha_composite(image.convert("RGBA"), layer).convert("RGB")


def map_layer(
    weights: np.ndarray,
    placement: Placement,
    size: tuple[int, int],
    style: MapStyle = DEFAULT_STYLE,
    *,
    maximum: float | None = None,
) -> Image.Image:
    """What `overlay` lays over the picture: RGBA, covering all of it, drawn at `size` (width, height)."""
    values, seen = upsample(weights, placement, size, smooth=style.smooth)
    largest = float(weights.max() if maximum is None else maximum)
    levels = np.rint(255 * np.clip(values / largest if largest > 0 else values, 0, 1)).astype(np.uint8)
    layer = _palette(style)[levels]
    layer[~seen] = (*UNSEEN_COLOR, round(255 * style.opacity))
    return Image.fromarray(layer)


def _palette(style: MapStyle) -> np.ndarray:
    """(256, 4): colour and opacity for 256 levels between no weight and the largest."""
    levels = np.linspace(0, 1, 256)
    alpha = np.rint(255 * style.opacity * (1 - _CLEARING * levels)).astype(np.uint8)
    return np.column_stack([colorize(levels, style.color_map), alpha])


def check_size(image: Image.Image, placement: Placement) -> None:
    """Raises ShapeError unless `placement` is about a picture of this size."""
    if image.size != (placement.width, placement.height):
        raise ShapeError(
            f"picture: expected {placement.width} x {placement.height} pixels as its placement says, got "
            f"{image.width} x {image.height}; give the upright original"
        )


def resized(image: Image.Image, placement: Placement, size: tuple[int, int]) -> tuple[Image.Image, Placement]:
    """The picture drawn at `size` (width, height), and its placement in pixels of that."""
    check_size(image, placement)
    across, down = size[0] / image.width, size[1] / image.height
    left, top, right, bottom = placement.box
    box = Box(left * across, top * down, right * across, bottom * down)
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0), Placement(*size, box)
