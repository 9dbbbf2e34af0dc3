"""Cases H38 to H40: a map stands at its place, over any grid and any shape, and letters that are missing are told."""

import json
import warnings

import numpy as np
import pytest
from PIL import Image

from captioning.cli.main import main
from captioning.features.geometry import Box, Placement
from captioning.viz.filmstrip import filmstrip
from captioning.viz.overlay import MapStyle, overlay
from captioning.viz.sheet import save_picture
from captioning.viz.upsampling import upsample
from tests.cases.making import board

SCRIPTS = ["一只狗在雪地里", "كلب يركض في الثلج", "एक कुत्ता", "a family 👨‍👩‍👧 and a flag 🇫🇷", "Собака"]


def placement(width, height):
    return Placement(width, height, Box(0.0, 0.0, float(width), float(height)))


def one_hot(rows, columns, row, column):
    weights = np.zeros((rows, columns))
    weights[row, column] = 1
    return weights


def centre_of(weights, width, height):
    """(x, y) of the weights' centre of mass over the picture."""
    values, _ = upsample(weights, placement(width, height), (width, height))
    values = np.clip(values, 0, None)
    y, x = (np.arange(side) + 0.5 for side in (height, width))
    return (values.sum(0) @ x) / values.sum(), (values.sum(1) @ y) / values.sum()


@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (14, 14), (10, 6), (6, 10), (1, 1)])
def test_H38_any_grid_is_drawn_at_its_place(rows, columns, tmp_path):
    width, height = 210, 140
    row, column = rows // 2, columns // 2
    x, y = centre_of(one_hot(rows, columns, row, column), width, height)
    assert abs(x - (column + 0.5) * width / columns) <= width / columns / 2
    assert abs(y - (row + 0.5) * height / rows) <= height / rows / 2
    picture = Image.new("RGB", (width, height), "grey")
    strip = filmstrip(picture, ["dog"], one_hot(rows, columns, row, column)[None], placement(width, height))
    save_picture(strip, tmp_path / "strip.png")
    assert (tmp_path / "strip.png").stat().st_size > 0
    even = overlay(picture, np.full((rows, columns), 1 / (rows * columns)), placement(width, height))
    assert even.getcolors(1) is not None


@pytest.mark.parametrize("turned", [False, True])
def test_H39_width_and_height_are_not_swapped(turned):
    (width, height), (rows, columns), (row, column) = (300, 200), (5, 10), (1, 7)
    expected = (225, 60)
    if turned:  # by 90 degrees, to the left
        width, height, rows, columns, row, column = height, width, columns, rows, columns - 1 - column, row
        expected = (60, 300 - 225)
    weights = one_hot(rows, columns, row, column)
    x, y = centre_of(weights, width, height)
    assert abs(x - expected[0]) <= width / columns / 2
    assert abs(y - expected[1]) <= height / rows / 2
    assert overlay(Image.new("RGB", (width, height)), weights, placement(width, height)).size == (width, height)
    brightest = np.asarray(
        overlay(Image.new("RGB", (width, height)), weights, placement(width, height), MapStyle(opacity=1.0))
    )
    at = np.unravel_index(brightest.sum(-1).argmax(), (height, width))
    assert abs(at[1] - expected[0]) <= width / columns / 2
    assert abs(at[0] - expected[1]) <= height / rows / 2


@pytest.mark.parametrize("caption", SCRIPTS)
def test_H40_missing_letters_are_one_warning_and_the_text_is_kept(caption, model, tmp_path):
    board().save(tmp_path / "board.png")
    maps = tmp_path / "maps"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        arguments = ["caption", model, tmp_path / "board.png", "--text", caption, "--overlay", maps]
        assert main([str(argument) for argument in arguments]) == 0
    about_letters = [str(each.message) for each in told if "has no letters for" in str(each.message)]
    assert len(about_letters) <= 1
    if caption in SCRIPTS[:3]:  # Pillow's own font has Cyrillic, but none of these
        assert set(about_letters[0]) & set(caption)
    assert json.loads((maps / "board.json").read_text(encoding="utf-8"))["caption"] == caption
    Image.open(maps / "board.png").verify()
