"""Pictures inside of text files: as data URIs, so that a page or an SVG needs no other file."""

from base64 import b64encode
from io import BytesIO

from PIL import Image


def jpeg_uri(image: Image.Image, *, quality: int = 85) -> str:
    """The picture as a JPEG data URI: small, for photographs."""
    return _uri(image, "jpeg", quality=quality, optimize=True)


def webp_uri(image: Image.Image, *, quality: int = 80) -> str:
    """The picture as a WebP data URI: small, and transparent where the picture is."""
    return _uri(image, "webp", quality=quality, method=2)


def _uri(image: Image.Image, kind: str, **options: int) -> str:
    stream = BytesIO()
    image.save(stream, kind, **options)
    return f"data:image/{kind};base64,{b64encode(stream.getvalue()).decode('ascii')}"
