"""Any Pillow mode to RGB with 8 bits, so that it looks as a person would see it."""

import numpy as np
from PIL import Image

Color = tuple[int, int, int]

_WHITE_OF_16_BITS = 65535.0
_WHITES_OF_FLOATS = (1.0, 255.0, _WHITE_OF_16_BITS)
_STRAIGHT = {"La": "LA", "RGBa": "RGBA"}


def to_rgb(image: Image.Image, *, background: Color) -> Image.Image:
    """A copy of `image` in RGB with 8 bits; what is transparent shows `background`.

    16-bit and integer grey (modes I;16 and I) is scaled from 0..65535; float grey (mode F) from the
    smallest of 0..1, 0..255 and 0..65535 that holds it. CMYK, YCbCr, HSV and LAB are
    converted by Pillow. Colour profiles inside files are not applied.

    Raises ValueError for grey values that lie outside these ranges or are not finite.
    """
    if image.mode == "F" or image.mode.startswith("I"):
        image = _grey_of_many_levels(image)
    if image.has_transparency_data:
        return _flatten(image, background)
    return image.convert("RGB")


def _flatten(image: Image.Image, background: Color) -> Image.Image:
    straight = image.convert(_STRAIGHT.get(image.mode, image.mode))
    canvas = Image.new("RGBA", image.size, (*background, 255))
    canvas.alpha_composite(straight.convert("RGBA"))
    return canvas.convert("RGB")


def _grey_of_many_levels(image: Image.Image) -> Image.Image:
    # Pillow's own conversion clips at 255, which turns nearly all of a 16-bit picture white.
    values = np.asarray(image)
    scale = np.float32(255.0 / _white(values, integer=image.mode != "F"))
    grey = Image.fromarray(np.rint(values * scale).astype(np.uint8))
    key = image.info.get("transparency")
    if key is not None:
        grey.putalpha(Image.fromarray(np.where(values == key, 0, 255).astype(np.uint8)))
    return grey


def _white(values: np.ndarray, *, integer: bool) -> float:
    """The value that stands for white."""
    least, largest = float(values.min()), float(values.max())
    for white in (_WHITE_OF_16_BITS,) if integer else _WHITES_OF_FLOATS:
        if least >= 0 and largest <= white:
            return white
    raise ValueError(
        f"grey values from {least:g} to {largest:g}, expected 0 to 65535: which value is white is not known. "
        "Save it as 8-bit or 16-bit grey"
    )
