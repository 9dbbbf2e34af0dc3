"""One loader for every path: upright, RGB with 8 bits, and one clear line about whatever is no picture."""

import json
import os
import struct
import warnings
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps

from captioning.data.images import load_image
from captioning.errors import ImageError

QUARTERS = ((220, 30, 30), (30, 180, 30), (30, 30, 220), (230, 220, 40))


def draw_quarters(width: int = 64, height: int = 48) -> Image.Image:
    """Four coloured quarters, so that every turn and flip shows."""
    picture = Image.new("RGB", (width, height))
    for number, color in enumerate(QUARTERS):
        left, top = number % 2 * width // 2, number // 2 * height // 2
        picture.paste(color, (left, top, left + width // 2, top + height // 2))
    return picture


def draw_noise(width: int = 83, height: int = 61) -> Image.Image:
    values = np.random.default_rng(5).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


def encode(picture: Image.Image, kind: str, **options: object) -> bytes:
    stream = BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def orientation_tag(value: int) -> bytes:
    tags = Image.Exif()
    tags[0x0112] = value
    return tags.tobytes()


def pixels(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture).astype(int)


# H01: upright


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_is_turned_as_pillow_turns_it(orientation: int) -> None:
    data = encode(draw_quarters(), "JPEG", quality=95, exif=orientation_tag(orientation))
    expected = ImageOps.exif_transpose(Image.open(BytesIO(data)))
    np.testing.assert_array_equal(pixels(load_image(data)), pixels(expected))


@pytest.mark.parametrize(("orientation", "turn"), [(6, Image.Transpose.ROTATE_90), (3, Image.Transpose.ROTATE_180)])
def test_a_photo_stored_on_its_side_comes_out_as_it_was_taken(
    orientation: int, turn: Image.Transpose, tmp_path: Path
) -> None:
    path = tmp_path / "phone.jpg"
    upright = draw_quarters()
    upright.transpose(turn).save(path, quality=95, exif=orientation_tag(orientation))
    loaded = load_image(path)
    assert loaded.size == (64, 48)
    corners = [loaded.getpixel(at) for at in ((16, 12), (48, 12), (16, 36), (48, 36))]
    np.testing.assert_allclose(corners, QUARTERS, atol=12)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_turning_happens_once_even_when_a_loaded_picture_is_loaded_again(kind: str) -> None:
    sideways = draw_quarters().transpose(Image.Transpose.ROTATE_90)
    lossless = {"lossless": True} if kind == "WEBP" else {"quality": 95} if kind == "JPEG" else {}
    once = load_image(encode(sideways, kind, exif=orientation_tag(6), **lossless))
    assert once.size == (64, 48)
    np.testing.assert_array_equal(pixels(load_image(once)), pixels(once))
    np.testing.assert_array_equal(pixels(load_image(encode(once, "PNG"))), pixels(once))


def test_garbled_exif_spoils_nothing_and_says_nothing() -> None:
    data = encode(draw_noise(), "JPEG", exif=b"Exif\x00\x00II*\x00\x08\x00\x00\x00\xff\xff")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_image(data).size == (83, 61)


# H02, H03: any mode to RGB with 8 bits


@pytest.mark.parametrize("mode", ["I;16", "I;16L", "I;16B", "I"])
def test_16_bit_grey_is_scaled_by_its_full_range(mode: str) -> None:
    ramp = np.tile(np.arange(256, dtype=np.uint32) * 257, (7, 1))
    types = {"I;16": "<u2", "I;16L": "<u2", "I;16B": ">u2", "I": "<i4"}
    picture = Image.frombytes(mode, (256, 7), ramp.astype(types[mode]).tobytes())
    assert picture.mode == mode
    expected = np.tile(np.arange(256)[:, None], (7, 1, 3))
    np.testing.assert_array_equal(pixels(load_image(picture)), expected)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_16_bit_grey_files_keep_their_levels(kind: str) -> None:
    ramp = np.tile(np.arange(256, dtype=np.uint16) * 257, (7, 1))
    grey = pixels(load_image(encode(Image.fromarray(ramp), kind)))
    np.testing.assert_array_equal(grey[3, :, 1], np.arange(256))


def test_a_16_bit_key_colour_is_transparent() -> None:
    values = np.array([[0, 30000, 65535]], dtype=np.uint16)
    data = encode(Image.fromarray(values), "PNG", transparency=30000)
    assert pixels(load_image(data, background=(1, 2, 3))).tolist() == [[[0] * 3, [1, 2, 3], [255] * 3]]


@pytest.mark.parametrize("white", [1.0, 255.0, 65535.0])
def test_float_grey_is_scaled_by_the_range_that_holds_it(white: float) -> None:
    values = np.array([[0.0, 0.25, 1.0]], dtype=np.float32) * np.float32(white)
    assert pixels(load_image(Image.fromarray(values)))[0, :, 2].tolist() == [0, 64, 255]


@pytest.mark.parametrize("value", [-1.0, 70000.0, float("nan"), float("inf")])
def test_float_grey_without_a_known_white_is_refused(value: float) -> None:
    picture = Image.fromarray(np.array([[0.0, value]], dtype=np.float32))
    with pytest.raises(ImageError, match="which value is white is not known"):
        load_image(picture)


def test_one_bit_and_grey_give_three_equal_channels() -> None:
    board = Image.new("1", (8, 8))
    board.paste(1, (4, 0, 8, 8))
    assert pixels(load_image(encode(board, "PNG")))[0, [0, 7]].tolist() == [[0] * 3, [255] * 3]
    grey = Image.fromarray(np.arange(253, dtype=np.uint8).reshape(11, 23))
    np.testing.assert_array_equal(pixels(load_image(encode(grey, "PNG"))), np.repeat(pixels(grey)[..., None], 3, -1))


def half_clear() -> Image.Image:
    picture = Image.new("RGBA", (4, 1), (10, 20, 30, 255))
    picture.putpixel((1, 0), (90, 80, 70, 0))
    picture.putpixel((2, 0), (100, 100, 100, 102))
    return picture


@pytest.mark.parametrize(("mode", "tolerance"), [("RGBA", 1), ("RGBa", 2), ("LA", 1), ("La", 2)])
def test_transparency_shows_the_background(mode: str, tolerance: int) -> None:
    straight = half_clear() if mode.startswith("RGB") else half_clear().convert("LA")
    picture = straight if mode == straight.mode else straight.convert(mode)
    shown = pixels(load_image(picture, background=(0, 200, 100)))
    color = pixels(straight.convert("RGBA"))
    alpha = color[..., 3:] / 255
    expected = alpha * color[..., :3] + (1 - alpha) * np.array([0, 200, 100])
    np.testing.assert_allclose(shown, expected, atol=tolerance)
    assert shown[0, 1].tolist() == [0, 200, 100]


def test_transparency_is_white_unless_said_otherwise() -> None:
    assert load_image(encode(Image.new("LA", (3, 2), (200, 0)), "PNG")).getpixel((1, 1)) == (255, 255, 255)


def test_palettes_with_and_without_transparency() -> None:
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.putpixel((1, 0), 1)
    plain, clear = encode(palette, "PNG"), encode(palette, "PNG", transparency=1)
    half = encode(palette, "PNG", transparency=bytes([255, 128]))
    assert pixels(load_image(plain)).tolist() == [[[10, 20, 30], [40, 50, 60]]]
    assert pixels(load_image(clear)).tolist() == [[[10, 20, 30], [255, 255, 255]]]
    np.testing.assert_allclose(pixels(load_image(half))[0, 1], [147, 152, 157], atol=1)


def test_a_palette_with_an_alpha_channel() -> None:
    picture = Image.new("P", (2, 1))
    picture.putpalette([10, 20, 30])
    picture.putalpha(Image.fromarray(np.array([[255, 0]], dtype=np.uint8)))
    assert picture.mode == "PA"
    assert pixels(load_image(picture, background=(7, 8, 9))).tolist() == [[[10, 20, 30], [7, 8, 9]]]


def test_a_key_colour_in_rgb_is_transparent() -> None:
    picture = draw_quarters(4, 2)
    data = encode(picture, "PNG", transparency=QUARTERS[0])
    assert load_image(data, background=(0, 0, 0)).getpixel((0, 0)) == (0, 0, 0)
    assert load_image(data, background=(0, 0, 0)).getpixel((3, 0)) == QUARTERS[1]


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "HSV", "RGBX"])
def test_colour_spaces_come_back_as_the_colours_they_stand_for(mode: str) -> None:
    expected = pixels(draw_quarters())
    np.testing.assert_allclose(pixels(load_image(draw_quarters().convert(mode))), expected, atol=3)


def test_cmyk_jpeg_is_not_shown_as_a_negative() -> None:
    data = encode(draw_quarters().convert("CMYK"), "JPEG", quality=98)
    assert Image.open(BytesIO(data)).mode == "CMYK"
    np.testing.assert_allclose(load_image(data).getpixel((16, 12)), QUARTERS[0], atol=12)


def srgb_of_lab(lab: tuple[float, float, float]) -> np.ndarray:
    """CIELAB with the white of D50 → XYZ → linear sRGB (matrix with Bradford adaptation) → 0..255."""
    lightness, a, b = lab
    middle = (lightness + 16) / 116
    roots = np.array([middle + a / 500, middle, middle - b / 200])
    relative = np.where(roots > 6 / 29, roots**3, 3 * (6 / 29) ** 2 * (roots - 4 / 29))
    xyz = relative * [0.96422, 1.0, 0.82521]
    matrix = [
        [3.1338561, -1.6168667, -0.4906146],
        [-0.9787684, 1.9161415, 0.0334540],
        [0.0719453, -0.2289914, 1.4052427],
    ]
    linear = np.clip(matrix @ xyz, 0, 1)
    return 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


@pytest.mark.parametrize("lab", [(40, 10, 20), (64, -30, 30), (50, 40, -50), (80, 0, 60), (100, 0, 0), (55, 0, 0)])
def test_lab_is_converted_as_the_formulas_say(lab: tuple[int, int, int]) -> None:
    stored = (round(lab[0] * 2.55), lab[1] + 128, lab[2] + 128)
    shown = load_image(Image.new("LAB", (2, 3), stored)).getpixel((0, 0))
    np.testing.assert_allclose(shown, srgb_of_lab(lab), atol=2)


def test_the_first_frame_of_an_animation_counts() -> None:
    frames = [Image.new("RGB", (9, 5), color) for color in QUARTERS]
    for kind in ("GIF", "PNG", "WEBP"):
        options = {"lossless": True} if kind == "WEBP" else {}
        data = encode(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert Image.open(BytesIO(data)).n_frames == 4
        np.testing.assert_allclose(load_image(data).getpixel((4, 2)), QUARTERS[0], atol=2)


# H04 to H07: broken, hostile or oddly named files


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"])
@pytest.mark.parametrize("part", [0.01, 0.3, 0.6, 0.9])
def test_a_cut_off_file_is_refused_by_name(kind: str, part: float, tmp_path: Path) -> None:
    data = encode(draw_noise(), kind)
    path = tmp_path / "cut_off.jpg"
    path.write_bytes(data[: int(part * len(data))])
    with pytest.raises(ImageError, match=r"cut_off\.jpg: (damaged or cut off|not a readable picture)"):
        load_image(path)
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"<!DOCTYPE html><html><body>404</body></html>", "an HTML page"),
        (b"\n  <html lang='en'>", "an HTML page"),
        (b"", "an empty file"),
        (b"\x00" * 900, "nothing but zero bytes"),
        (b'{"error": "not found"}', "a JSON file"),
        (b"%PDF-1.7\n", "a PDF document"),
        (b"PK\x03\x04rest", "a zip archive"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (b"<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/svg'/>", "an SVG drawing"),
        (b"<?xml version='1.0'?><Error/>", "an XML file"),
        (b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00", "a HEIC photo"),
        (b"\x00\x00\x00\x18ftypisom\x00\x00\x00\x00", "a video"),
        (b"\xff\xd8\xff\xe0", "the beginning of a picture"),
        (b"not here", "a text file that begins 'not here'"),
        (b"\x07\x81\xfe\xfa\x01", "data of an unknown kind"),
    ],
)
def test_what_is_no_picture_is_told_by_its_content(content: bytes, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "page.jpg"
    path.write_bytes(content)
    with pytest.raises(ImageError) as caught:
        load_image(path)
    assert str(caught.value).startswith(f"{path}: not a readable picture; it seems to be {kind}")
    assert "\n" not in str(caught.value)


def test_text_cut_in_the_middle_of_a_letter_is_still_text(tmp_path: Path) -> None:
    path = tmp_path / "notes.jpg"
    path.write_text("x" + "é" * 600, encoding="utf-8")
    with pytest.raises(ImageError, match="a text file that begins"):
        load_image(path)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"absent\.jpg: no such file"):
        load_image(tmp_path / "absent.jpg")
    with pytest.raises(ImageError, match=f"{tmp_path.name}: a folder, not a picture"):
        load_image(str(tmp_path))


def png_header(width: int, height: int) -> bytes:
    """A PNG that promises width x height pixels and holds none."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [header, b"IDAT" + zlib.compress(b"")]
    body = b"".join(struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


def test_a_decompression_bomb_is_refused_by_its_header() -> None:
    limit = Image.MAX_IMAGE_PIXELS
    for side in (11_000, 60_000):  # above our limit, and above Pillow's own
        with pytest.raises(ImageError, match=r"too large|pixels; expected"):
            load_image(png_header(side, side))
    assert limit == Image.MAX_IMAGE_PIXELS


def test_the_size_limit_is_inclusive_and_can_be_set() -> None:
    data = encode(draw_quarters(), "PNG")
    assert load_image(data, max_pixels=64 * 48).size == (64, 48)
    with pytest.raises(ImageError, match=r"64 x 48 pixels; expected at most 3071 pixels"):
        load_image(data, max_pixels=64 * 48 - 1)
    with pytest.raises(ImageError, match="64 x 48 pixels"):
        load_image(draw_quarters(), max_pixels=9)


def test_the_content_decides_not_the_suffix(tmp_path: Path) -> None:
    path = tmp_path / "Dog in snow (1).JPG"
    path.write_bytes(encode(draw_quarters(), "WEBP", lossless=True))
    np.testing.assert_array_equal(pixels(load_image(path)), pixels(draw_quarters()))


def test_path_text_bytes_and_picture_give_the_same_and_the_source_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    draw_noise().save(path)
    given = draw_noise()
    for source in (path, str(path), path.read_bytes(), given):
        np.testing.assert_array_equal(pixels(load_image(source)), pixels(draw_noise()))
    loaded = load_image(given)
    loaded.putpixel((0, 0), (1, 2, 3))
    np.testing.assert_array_equal(pixels(given), pixels(draw_noise()))


@pytest.mark.shared
def test_the_given_awkward_files_come_out_as_their_manifest_says() -> None:
    if not os.environ.get("CAPTIONING_SHARED"):
        pytest.skip("CAPTIONING_SHARED is not set")
    folder = Path(os.environ["CAPTIONING_SHARED"]) / "cases" / "files"
    rows = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
    pictures = [row for row in rows if row["file"].startswith("images/")]
    assert len(pictures) >= 15
    for row in pictures:
        expect = row["expect"]
        if expect["outcome"] == "reject":
            with pytest.raises(ImageError, match=Path(row["file"]).name):
                load_image(folder / row["file"])
            continue
        loaded = load_image(folder / row["file"])
        assert list(loaded.size) == expect["size"], row["file"]
        for x, y, color in expect["pixels"]:
            np.testing.assert_allclose(loaded.getpixel((x, y)), color, atol=expect["tolerance"], err_msg=row["file"])
        assert len(np.unique(np.asarray(loaded))) >= expect.get("min_levels", 0)
