"""The map over the picture: any grid, any shape, every fit, and brighter where the weight is larger."""

import numpy as np
import pytest
from PIL import Image

from captioning.data.transforms import fit_square
from captioning.errors import ConfigError, ShapeError
from captioning.features.geometry import Box, Placement
from captioning.features.preprocessing import Preprocessing
from captioning.viz.colors import COLOR_MAPS
from captioning.viz.overlay import UNSEEN_COLOR, MapStyle, map_layer, overlay, resized

GREY = (128, 128, 128)


def one_hot(rows: int, columns: int, row: int, column: int) -> np.ndarray:
    weights = np.zeros((rows, columns))
    weights[row, column] = 1
    return weights


def whole(width: int, height: int) -> Placement:
    return Placement(width, height, Box(0, 0, width, height))


def light(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture, dtype=float).sum(axis=-1)


def bright_spot(picture: Image.Image) -> tuple[float, float]:
    """(x, y) of the middle of the brightest pixels."""
    brightness = light(picture)
    rows, columns = np.nonzero(brightness >= brightness.max() - 3)
    return float(columns.mean() + 0.5), float(rows.mean() + 0.5)


@pytest.mark.parametrize("color", [(0, 0, 0), GREY, (255, 255, 255)])
@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (14, 14), (10, 6), (3, 2)])
def test_the_bright_spot_is_at_the_cell_on_any_grid(rows: int, columns: int, color: tuple[int, int, int]) -> None:
    picture = Image.new("RGB", (157, 211), color)
    for row, column in ((0, 0), (rows - 1, 0), (rows // 2, columns - 1)):
        shown = overlay(picture, one_hot(rows, columns, row, column), whole(157, 211))
        x, y = bright_spot(shown)
        assert shown.size == (157, 211)
        assert abs(x - (column + 0.5) * 157 / columns) < 157 / columns / 2
        assert abs(y - (row + 0.5) * 211 / rows) < 211 / rows / 2


@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (14, 14), (10, 6), (1, 1)])
@pytest.mark.parametrize("smooth", [True, False])
def test_an_even_map_gives_an_even_picture(rows: int, columns: int, smooth: bool) -> None:
    weights = np.full((rows, columns), 1 / (rows * columns))
    picture = Image.new("RGB", (83, 61), GREY)
    for maximum in (None, 0.37):
        shown = overlay(picture, weights, whole(83, 61), MapStyle(smooth=smooth), maximum=maximum)
        assert len(shown.getcolors()) == 1


def test_width_and_height_are_not_swapped() -> None:
    wide = overlay(Image.new("RGB", (300, 200), GREY), one_hot(5, 10, 1, 7), whole(300, 200))
    tall = overlay(Image.new("RGB", (200, 300), GREY), one_hot(10, 5, 7, 1), whole(200, 300))
    assert wide.size == (300, 200)
    np.testing.assert_allclose(bright_spot(wide), (225, 60), atol=1)
    np.testing.assert_allclose(bright_spot(tall), (60, 225), atol=1)
    np.testing.assert_array_equal(np.asarray(wide), np.asarray(tall).transpose(1, 0, 2))


@pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
@pytest.mark.parametrize("size", [(307, 211), (211, 307), (199, 197)])
def test_the_map_lies_where_the_encoder_saw_the_thing(fit: str, size: tuple[int, int]) -> None:
    """A dot in the photo → the square → the cell that holds the dot → the overlay is bright near the dot."""
    width, height = size
    x, y = width // 2 + 41, height // 2 - 37
    photo = Image.new("RGB", size, GREY)
    photo.paste((255, 0, 0), (x - 4, y - 4, x + 4, y + 4))
    square, placement = fit_square(photo, Preprocessing(size=112, fit=fit, crop_fraction=0.875))
    channels = np.asarray(square, dtype=int)
    redness = (channels[..., 0] - channels[..., 1]).clip(0)[: 7 * 16, : 7 * 16]
    row, column = np.unravel_index(redness.reshape(7, 16, 7, 16).sum(axis=(1, 3)).argmax(), (7, 7))
    shown = overlay(Image.new("RGB", size, GREY), one_hot(7, 7, row, column), placement)
    seen_x, seen_y = bright_spot(shown)
    cell = placement.cell(row, column, rows=7, columns=7)
    assert abs(seen_x - x) <= (cell.right - cell.left) / 2 + 4
    assert abs(seen_y - y) <= (cell.bottom - cell.top) / 2 + 4


def test_what_the_model_did_not_see_is_greyed_whatever_the_weights() -> None:
    photo = Image.new("RGB", (90, 40), (250, 30, 10))
    placement = Placement(90, 40, Box(25, 0, 65, 40))
    style = MapStyle(opacity=0.5)
    left = np.asarray(overlay(photo, np.ones((3, 5)), placement, style))[:, :25]
    other = np.asarray(overlay(photo, one_hot(3, 5, 1, 0), placement, style))[:, :25]
    np.testing.assert_array_equal(left, other)
    expected = (np.array([250, 30, 10]) + UNSEEN_COLOR) / 2
    np.testing.assert_allclose(left[7, 11], expected, atol=1)


@pytest.mark.parametrize("color_map", ["inferno", "magma", "grey", "hot"])
@pytest.mark.parametrize("color", [(0, 0, 0), GREY, (255, 255, 255)])
def test_a_larger_weight_is_never_darker(color_map: str, color: tuple[int, int, int]) -> None:
    ramp = np.arange(256.0)[None]
    shown = overlay(Image.new("RGB", (256, 1), color), ramp, whole(256, 1), MapStyle(color_map=color_map, smooth=False))
    brightness = light(shown)[0]
    assert (np.diff(brightness) >= -3).all()  # one level in each channel is rounding
    assert brightness[-1] > brightness[0] + 150


def test_opacity_goes_from_the_bare_photo_to_the_bare_colour() -> None:
    photo = Image.fromarray(np.random.default_rng(2).integers(0, 256, (20, 30, 3), dtype=np.uint8))
    bare = overlay(photo, one_hot(4, 6, 1, 1), whole(30, 20), MapStyle(opacity=0))
    np.testing.assert_array_equal(np.asarray(bare), np.asarray(photo))
    covered = overlay(photo, np.zeros((4, 6)), whole(30, 20), MapStyle(opacity=1, color_map="viridis"))
    assert covered.getcolors() == [(600, tuple(bytes.fromhex(COLOR_MAPS["viridis"].split()[0])))]


def test_the_maximum_sets_the_end_of_the_colour_map() -> None:
    photo, weights = Image.new("RGB", (10, 10), GREY), np.full((2, 2), 0.2)
    own = overlay(photo, weights, whole(10, 10))
    faint = overlay(photo, weights, whole(10, 10), maximum=0.8)
    assert light(own).min() > light(faint).max()
    quarter = overlay(photo, np.array([[0.25, 1.0]]), whole(10, 10), MapStyle(smooth=False))
    np.testing.assert_array_equal(np.asarray(faint)[0, 0], np.asarray(quarter)[0, 0])


def test_maxima_are_one_for_the_caption_or_one_a_word() -> None:
    maps = np.stack([np.full((2, 3), 0.1), one_hot(2, 3, 1, 1)])
    assert MapStyle(normalization="word").maxima(maps).tolist() == [0.1, 1]
    assert MapStyle(normalization="caption").maxima(maps).tolist() == [1, 1]
    assert len(MapStyle(normalization="caption").maxima(np.zeros((0, 2, 3)))) == 0


def test_the_layer_covers_the_picture_at_any_size() -> None:
    placement = Placement(90, 60, Box(15, 0, 75, 60))
    layer = map_layer(one_hot(3, 3, 0, 2), placement, (30, 20))
    assert (layer.mode, layer.size) == ("RGBA", (30, 20))
    x, y = bright_spot(layer.convert("RGB"))
    assert (abs(x - 65 / 3) < 2) & (abs(y - 10 / 3) < 2)


def test_resizing_keeps_the_cells_on_the_same_things() -> None:
    photo, placement = Image.new("RGB", (90, 60)), Placement(90, 60, Box(15, 0, 75, 60))
    small, moved = resized(photo, placement, (45, 20))
    assert small.size == (moved.width, moved.height) == (45, 20)
    assert moved.box == Box(7.5, 0, 37.5, 20)


def test_a_picture_of_another_size_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"expected 30 x 20 pixels as its placement says, got 20 x 30"):
        overlay(Image.new("RGB", (20, 30)), np.ones((2, 2)), whole(30, 20))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"color_map": "infra"}, "color map: expected one of"),
        ({"opacity": 1.5}, r"opacity: expected 0 to 1, got 1\.5"),
        ({"opacity": float("nan")}, "opacity: expected 0 to 1, got nan"),
        ({"normalization": "photo"}, "expected word or caption, got 'photo'"),
    ],
)
def test_wrong_styles_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MapStyle(**settings)
