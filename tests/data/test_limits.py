"""Memory and time stay bounded: guards against explosions, not races; `scripts/bench_data.py` has the figures."""

import zlib
from pathlib import Path

import pytest
from PIL import Image

from captioning.data.images import MAX_PIXELS, load_image
from captioning.errors import ImageError
from scripts.bench_data import open_picture, read_all, weigh, write_captions, write_picture


def test_a_picture_of_400_megapixels_is_refused_from_its_header(tmp_path: Path) -> None:
    path = tmp_path / "huge.png"
    Image.new("L", (1, 1)).save(path)
    content = bytearray(path.read_bytes())
    content[16:24] = (20_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    path.write_bytes(content)
    with pytest.raises(ImageError, match=r"20000 x 20000 pixels; expected at most|too large to be decoded safely"):
        load_image(path)
    assert MAX_PIXELS < 20_000**2


def test_large_pictures_stay_below_a_gigabyte(tmp_path: Path) -> None:
    cost = weigh(open_picture, write_picture(tmp_path, 10_900))
    assert cost.result == "read, (3, 224, 224)"
    assert cost.mebibytes < 1000


def test_a_hundred_thousand_captions_load_in_bounded_memory_and_time(tmp_path: Path) -> None:
    cost = weigh(read_all, *write_captions(tmp_path, 100_000))
    for told in cost.result.split("; "):
        assert told.startswith("20,000 images, 100,000 captions, 19 words")
    assert cost.mebibytes < 500
    assert cost.processor_seconds < 120
