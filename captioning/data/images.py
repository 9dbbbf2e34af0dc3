"""The one way a picture enters: training, captioning, evaluation and overlays all use `load_image`."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from PIL import ExifTags, Image

from captioning.data.color_modes import Color, to_rgb
from captioning.data.image_content import HEAD_SIZE, describe_content
from captioning.errors import ImageError

WHITE: Color = (255, 255, 255)
MAX_PIXELS = 120_000_000
"""Above what common cameras give, 108-megapixel phones included; decoding one takes up to a gigabyte."""

ImageSource = str | Path | bytes | Image.Image

_TURN_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def load_image(
    source: ImageSource, *, name: str | None = None, background: Color = WHITE, max_pixels: int = MAX_PIXELS
) -> Image.Image:
    """The picture as a person sees it: upright by its EXIF tag, RGB with 8 bits, an animation's first frame.

    source: a path, the bytes of a file, or a Pillow picture (its current frame). The content decides what it
        is, not the suffix.
    name: what errors call it; None: its path.
    background: the colour, three numbers of 0..255, that shows where the picture is transparent.
    max_pixels: larger pictures are refused before they are decoded. Pillow's own limit holds besides.

    Raises ImageError, which names the file, for what is missing, no picture, damaged, cut off or too large.
    Pillow's global switches, the one that lets cut-off pictures pass among them, stay as they are.
    """
    name = _name(source) if name is None else name
    with _opened(source, name) as image:
        _check_size(image, name, max_pixels)
        _decode(image, name)
        try:
            colored = to_rgb(image, background=background)
        except ValueError as error:
            raise ImageError(f"{name}: can't be turned into RGB: {error}") from error
        turn = _TURN_UPRIGHT.get(_orientation(image))
    upright = colored if turn is None else colored.transpose(turn)
    upright.info.clear()  # else a later reader would find the EXIF tag and turn the picture again
    return upright


def read_bytes(path: Path) -> bytes:
    """A picture's file as it is. Raises ImageError where it is missing or can't be read."""
    with _stream(path, str(path)) as stream:
        return stream.read()


def _name(source: ImageSource) -> str:
    if isinstance(source, bytes):
        return "picture given as bytes"
    if isinstance(source, Image.Image):
        return str(getattr(source, "filename", "")) or "picture given as a Pillow image"
    return str(source)


@contextmanager
def _opened(source: ImageSource, name: str) -> Iterator[Image.Image]:
    """The picture with its header read and its pixels not yet."""
    with warnings.catch_warnings():
        # Pillow warns, without a name, of garbled tags (harmless) and of large sizes (max_pixels decides).
        warnings.simplefilter("ignore")
        if isinstance(source, Image.Image):
            yield source
        else:
            with _stream(source, name) as stream, _identified(stream, name) as image:
                yield image


def _stream(source: str | Path | bytes, name: str) -> BinaryIO:
    if isinstance(source, bytes):
        return BytesIO(source)
    try:
        return Path(source).open("rb")
    except FileNotFoundError as error:
        raise ImageError(f"{name}: no such file; check the path and the folder it starts from") from error
    except IsADirectoryError as error:
        raise ImageError(f"{name}: a folder, not a picture; name the files in it") from error
    except OSError as error:
        raise ImageError(f"{name}: can't be opened ({error.strerror}); check its permissions") from error
    except ValueError as error:  # a name with a zero byte in it
        raise ImageError(f"{name!r}: no file can have this name ({error})") from error


def _identified(stream: BinaryIO, name: str) -> Image.Image:
    head = stream.read(HEAD_SIZE)
    try:
        return Image.open(stream)
    except Image.DecompressionBombError as error:
        raise ImageError(f"{name}: too large to be decoded safely; make it smaller ({error})") from error
    except Exception as error:  # whatever a decoder raises on hostile bytes, the file is to blame
        kind = describe_content(head)
        raise ImageError(
            f"{name}: not a readable picture; it seems to be {kind}. Fetch the picture again or leave the file out"
        ) from error


def _check_size(image: Image.Image, name: str, max_pixels: int) -> None:
    width, height = image.size
    if width * height > max_pixels:
        raise ImageError(
            f"{name}: {width} x {height} pixels; expected at most {max_pixels} pixels in all. "
            "Make it smaller, or raise max_pixels if the file can be trusted"
        )


def _decode(image: Image.Image, name: str) -> None:
    try:
        image.load()
    except Exception as error:  # as above
        raise ImageError(
            f"{name}: damaged or cut off ({error}). Fetch the picture again or leave the file out"
        ) from error


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation still to be applied (Pillow turns TIFF files itself); 1 where none can be read."""
    try:
        return image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # a garbled tag block does not spoil the picture
        return 1
