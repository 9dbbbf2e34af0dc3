"""The filmstrip: a tile a word in reading order, legible text, and files that open."""

import base64
import json
import os
import warnings
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from captioning.errors import ConfigError, ShapeError
from captioning.features.geometry import Box, Placement
from captioning.viz.filmstrip import filmstrip, word_frames
from captioning.viz.fonts import load_font, missing_letters, wrap
from captioning.viz.overlay import MapStyle, overlay
from captioning.viz.sheet import Sheet, save_picture

WORDS = ["a", "red", "circle", "left", "of", "a", "square"]
SVG = "{http://www.w3.org/2000/svg}"


def whole(width: int, height: int) -> Placement:
    return Placement(width, height, Box(0, 0, width, height))


def sheet(words: list[str], *, size: tuple[int, int] = (60, 40), tile: int = 64, **settings: object) -> Sheet:
    maps = np.random.default_rng(1).dirichlet(np.ones(15), len(words)).reshape(len(words), 3, 5)
    return filmstrip(Image.new("RGB", size, (90, 120, 150)), words, maps, whole(*size), tile=tile, **settings)


def boxes(strip: Sheet) -> list[tuple[int, int, int, int]]:
    return [(t.left, t.top, t.left + t.image.width, t.top + t.image.height) for t in strip.tiles]


@pytest.mark.parametrize("size", [(60, 40), (40, 60), (400, 1), (1, 400), (1, 1)])
@pytest.mark.parametrize("columns", [None, 1, 3, 50])
def test_tiles_stand_apart_inside_the_sheet_in_reading_order(size: tuple[int, int], columns: int | None) -> None:
    strip = sheet(WORDS, size=size, columns=columns)
    places = boxes(strip)
    assert len(places) == 1 + len(WORDS) + 1  # the photo, the words, the bar of the legend
    for number, (left, top, right, bottom) in enumerate(places):
        assert 0 < left < right < strip.width
        assert 0 < top < bottom < strip.height
        assert bottom - top <= 80  # a quarter more than the tile's width
        for other in places[:number]:
            assert left >= other[2] or top >= other[3] or right <= other[0] or bottom <= other[1]
    assert [(top, left) for left, top, _, _ in places] == sorted((top, left) for left, top, _, _ in places)


def test_rows_are_evenly_filled_unless_columns_are_given() -> None:
    lefts = {box[0] for box in boxes(sheet(WORDS))}
    assert len(lefts) == 4  # eight tiles: two rows of four, not five and three
    assert len({box[0] for box in boxes(sheet(WORDS, columns=3))}) == 3


def test_the_caption_stands_above_and_each_word_below_its_tile() -> None:
    strip = sheet(WORDS)
    texts = [line.text for line in strip.lines]
    caption = [line.text for line in strip.lines if line.baseline < strip.tiles[0].top]
    assert " ".join(caption) == " ".join(WORDS)
    labels = [line for line in strip.lines if line.text in WORDS and line.baseline > strip.tiles[0].top]
    assert [line.text for line in labels] == WORDS
    for label, tile in zip(labels, strip.tiles[1:-1], strict=True):
        assert label.x == tile.left
        assert 0 < label.baseline - (tile.top + tile.image.height) < 20
    assert texts[-1] == "weight, from 0 to the number beside the word"


def test_the_number_beside_a_word_is_its_largest_weight() -> None:
    maps = np.stack([np.full((2, 2), 0.25), np.array([[0.1, 0.7], [0.1, 0.1]])])
    strip = filmstrip(Image.new("RGB", (30, 30)), ["a", "dog"], maps, whole(30, 30))
    assert [line.text for line in strip.lines if line.to_the_right] == ["0.25", "0.70"]


def test_tiles_are_the_overlays_and_the_first_is_the_photo() -> None:
    photo = Image.new("RGB", (64, 32), (90, 120, 150))
    maps = np.stack([np.full((2, 2), 0.25), np.array([[0.1, 0.7], [0.1, 0.1]])])
    for style, first in ((MapStyle(), 0.25), (MapStyle(normalization="caption"), 0.7)):
        strip = filmstrip(photo, ["a", "dog"], maps, whole(64, 32), tile=64, style=style)
        expected = [
            photo,
            overlay(photo, maps[0], whole(64, 32), style, maximum=first),
            overlay(photo, maps[1], whole(64, 32), style, maximum=0.7),
        ]
        frames = list(word_frames(photo, maps, whole(64, 32), style=style))
        for shown, wanted in zip([*strip.tiles[:3], *frames], [*expected, *expected[1:]], strict=True):
            picture = shown if isinstance(shown, Image.Image) else shown.image
            np.testing.assert_array_equal(np.asarray(picture), np.asarray(wanted))


def test_the_legend_speaks_of_grey_only_where_something_is_cut() -> None:
    cut = filmstrip(Image.new("RGB", (60, 30)), ["a"], np.ones((1, 2, 2)), Placement(60, 30, Box(15, 0, 45, 30)))
    assert cut.lines[-1].text.endswith("grey: not shown to the model")
    assert "grey" not in sheet(["a"]).lines[-1].text


def test_letters_are_drawn_where_the_layout_says() -> None:
    strip = sheet(WORDS, tile=160)
    drawn = np.asarray(strip.picture().convert("L"))
    assert drawn.shape == (strip.height, strip.width)
    for line in strip.lines:
        right = round(line.x) if line.to_the_right else round(line.x + line.size)
        left = right - round(line.size)
        spot = drawn[round(line.baseline - line.size) : round(line.baseline), left:right]
        assert spot.min() < 190, line.text


def test_a_long_word_is_set_smaller_and_a_long_caption_in_several_lines() -> None:
    word = "donaudampfschifffahrtsgesellschaft"
    strip = sheet([word, *WORDS, *WORDS])
    caption = [line for line in strip.lines if line.baseline < strip.tiles[0].top]
    assert len(caption) > 1
    label = next(line for line in strip.lines if line.text == word and line not in caption)
    assert load_font(None, label.size).getlength(word) <= 64


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("size", [(60, 40), (3, 200)])
def test_no_line_runs_over_the_edge_or_becomes_too_small(columns: int, size: tuple[int, int]) -> None:
    strip = sheet(WORDS, columns=columns, size=size, tile=160)
    for line in strip.lines:
        length = load_font(None, line.size).getlength(line.text)
        assert (line.x if line.to_the_right else line.x + length) <= strip.width - 20
        assert line.size > 7


def test_an_endless_word_is_drawn_all_the_same() -> None:
    assert sheet(["x" * 5000]).picture().size[0] < 1000


def test_wrapping_keeps_every_word_in_order() -> None:
    text = " ".join(WORDS * 3)
    lines = wrap(text, None, size=20, width=120)
    assert " ".join(lines) == text
    assert max(load_font(None, 20).getlength(line) for line in lines) <= 120
    assert wrap("", None, size=20, width=120) == []


def test_no_words_give_the_photo_alone() -> None:
    strip = filmstrip(Image.new("RGB", (9, 9)), [], np.zeros((0, 3, 5)), whole(9, 9))
    assert len(strip.tiles) == 1
    assert strip.lines == ()
    assert strip.picture().size == (strip.width, strip.height)


def test_maps_and_words_have_to_fit() -> None:
    with pytest.raises(ShapeError, match=r"expected \(2, rows, columns\)"):
        filmstrip(Image.new("RGB", (9, 9)), ["a", "dog"], np.zeros((3, 2, 2)), whole(9, 9))
    with pytest.raises(ShapeError, match="9 x 9 pixels"):
        filmstrip(Image.new("RGB", (8, 9)), ["a"], np.zeros((1, 2, 2)), whole(9, 9))
    with pytest.raises(ConfigError, match="columns >= 1"):
        sheet(["a"], columns=0)


# files


def test_png_and_pdf_open_again(tmp_path: Path) -> None:
    strip = sheet(WORDS)
    save_picture(strip, tmp_path / "new" / "strip.png")
    save_picture(strip, tmp_path / "strip.PDF")
    with Image.open(tmp_path / "new" / "strip.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture), np.asarray(strip.picture()))
    assert (tmp_path / "strip.PDF").read_bytes().startswith(b"%PDF-")


def test_svg_has_the_text_as_text_and_the_tiles_as_pictures(tmp_path: Path) -> None:
    words = ["<b>", "&", "犬", "'quoted\""]
    save_picture(sheet(words), tmp_path / "strip.svg")
    root = ElementTree.parse(tmp_path / "strip.svg").getroot()
    assert root.find(f"{SVG}title").text == " ".join(words)
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert [text for text in texts if text in words] == words
    images = list(root.iter(f"{SVG}image"))
    assert len(images) == 1 + len(words) + 1
    for image in images:
        kind, content = image.get("href").split(",")
        assert kind == "data:image/jpeg;base64"
        decoded = Image.open(BytesIO(base64.b64decode(content)))
        assert decoded.size == (int(image.get("width")), int(image.get("height")))


def test_single_frames_are_saved_too_and_other_suffixes_refused(tmp_path: Path) -> None:
    frame = Image.new("RGB", (8, 5), (1, 2, 3))
    for suffix in ("png", "pdf", "svg"):
        save_picture(frame, tmp_path / f"frame.{suffix}")
        assert (tmp_path / f"frame.{suffix}").stat().st_size > 50
    with pytest.raises(ConfigError, match=r"expected a name that ends in \.png, \.pdf, \.svg, got '\.bmp'"):
        save_picture(frame, tmp_path / "frame.bmp")


# H40: letters that the font lacks


def test_missing_letters_give_one_warning_that_names_them() -> None:
    with pytest.warns(UserWarning, match="has no letters for 一 只 狗: boxes stand for them") as caught:
        picture = sheet(["一只狗", "狗", "dog"]).picture()
    assert len(caught) == 1
    assert picture.size[0] > 64


def test_english_letters_blanks_and_joiners_are_not_missing() -> None:
    font = load_font(None, 20)
    assert missing_letters(["A dog’s “yes”, 1/2!", "a\u200db\u00a0c"], font) == []
    assert missing_letters(["ab犬c犬"], font) == ["犬"]


def test_a_font_that_has_the_letters_ends_the_warning() -> None:
    fonts = pytest.importorskip("matplotlib.font_manager")
    path = fonts.findfont("DejaVu Sans", fallback_to_default=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        strip = sheet(["Собака", "كلب"], font=path)
        strip.picture()
    assert ElementTree.fromstring(strip.svg()).get("font-family").startswith("'DejaVu Sans'")


def test_a_file_that_is_no_font_is_refused(tmp_path: Path) -> None:
    (tmp_path / "font.ttf").write_bytes(b"no font")
    with pytest.raises(ConfigError, match=r"font: expected a TrueType or OpenType file, got .*font\.ttf"):
        sheet(["a"], font=tmp_path / "font.ttf")


@pytest.mark.shared
def test_captions_in_any_script_are_drawn_with_at_most_one_warning_each(tmp_path: Path) -> None:
    if not os.environ.get("CAPTIONING_SHARED"):
        pytest.skip("CAPTIONING_SHARED is not set")
    path = Path(os.environ["CAPTIONING_SHARED"]) / "cases" / "files" / "captions" / "unicode_mix.jsonl"
    captions = [json.loads(line)["caption"] for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(captions) == 5
    for number, caption in enumerate(captions):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            save_picture(sheet(caption.split()), tmp_path / f"{number}.png")
        assert len(caught) <= 1
        with Image.open(tmp_path / f"{number}.png") as picture:
            assert picture.size[0] > 64
