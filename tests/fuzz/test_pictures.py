"""The one image loader on bytes that are no picture, and on pictures with something broken in them."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from captioning.data.images import load_image
from captioning.data.transforms import ImageTransform
from captioning.features.preprocessing import Preprocessing
from tests.fuzz.limits import MEMORY, documented_errors_only, fuzzed, peak

KINDS = {
    "JPEG": ("RGB", "L", "CMYK"),
    "PNG": ("RGB", "L", "LA", "RGBA", "P", "1", "I;16"),
    "GIF": ("P", "L"),
    "BMP": ("RGB", "1"),
    "TIFF": ("RGB", "L", "CMYK", "I;16", "F", "1"),
    "WEBP": ("RGB", "RGBA"),
    "PPM": ("RGB", "L"),
    "TGA": ("RGB", "RGBA"),
    "ICO": ("RGBA",),
}
SIGNATURES = [
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n",
    b"GIF89a",
    b"BM",
    b"II*\x00",
    b"MM\x00*",
    b"RIFF\0\0\0\0WEBP",
    b"P6 ",
]
SIGNATURES += [b"8BPS", b"\x00\x00\x01\x00", b"qoif", b"DDS ", b"\x00\x00\x00\x0cjP  ", b"icns", b"SIMPLE", b"%!PS"]
TRANSFORM = ImageTransform(Preprocessing(size=8))


def check(content):
    """What was loaded is RGB, and an encoder can take it."""
    image = load_image(content)
    assert image.mode == "RGB"
    pixels, placement = TRANSFORM(image)
    assert pixels.shape == (3, 8, 8)
    assert pixels.isfinite().all()
    assert (placement.width, placement.height) == image.size


def whole(kind, mode, seed=0):
    values = np.random.default_rng(seed).integers(0, 256, (11, 13, 4), dtype=np.uint8)
    stream = io.BytesIO()
    picture = Image.fromarray(values)
    if mode == "I;16":
        picture = Image.fromarray(values[..., 0].astype(np.uint16) * 257)
    else:
        picture = picture.convert("RGB").convert(mode) if mode not in ("RGBA", "LA") else picture.convert(mode)
    picture.save(stream, kind)
    return stream.getvalue()


WHOLE = {(kind, mode): whole(kind, mode) for kind, modes in KINDS.items() for mode in modes}


@st.composite
def broken(draw, content):
    """A picture's file with bytes changed, put in or cut off; mostly in its head, where sizes and types stand."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 5))):
        head = draw(st.booleans())
        place = draw(st.integers(0, min(len(changed), 64 if head else len(changed)) - 1))
        changed[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=4))
        if not changed:
            break
    return bytes(changed[: draw(st.integers(0, len(changed)))]) if draw(st.integers(0, 3)) == 0 else bytes(changed)


@pytest.mark.parametrize("key", WHOLE, ids=lambda key: "-".join(key))
def test_whole_pictures_are_read(key):
    check(WHOLE[key])


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@fuzzed
def test_broken_pictures(kind, data):
    mode = data.draw(st.sampled_from(KINDS[kind]))
    before = peak()
    with documented_errors_only():
        check(data.draw(broken(WHOLE[kind, mode])))
    assert peak() - before < MEMORY


@given(start=st.sampled_from(SIGNATURES) | st.binary(max_size=4), rest=st.binary(max_size=300))
@fuzzed
def test_bytes_that_only_begin_as_a_picture(start, rest):
    before = peak()
    with documented_errors_only():
        check(start + rest)
    assert peak() - before < MEMORY
