"""Weights on a grid become values at pixels: exact at cells' centres, where the placement says."""

import numpy as np
import pytest

from captioning.errors import ShapeError
from captioning.features.geometry import Box, Placement
from captioning.viz.upsampling import check_maps, upsample


def whole(width: int, height: int) -> Placement:
    return Placement(width, height, Box(0, 0, width, height))


def random_weights(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(3).dirichlet(np.ones(rows * columns)).reshape(rows, columns)


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (14, 14), (10, 6), (1, 1), (1, 5), (3, 2)])
def test_values_at_the_cells_centres_are_the_weights(rows: int, columns: int, smooth: bool) -> None:
    weights = random_weights(rows, columns)
    values, seen = upsample(weights, whole(11 * columns, 13 * rows), (11 * columns, 13 * rows), smooth=smooth)
    np.testing.assert_allclose(values[6::13, 5::11], weights, rtol=1e-12)
    assert seen.all()


@pytest.mark.parametrize("smooth", [True, False])
def test_an_even_map_is_even_everywhere(smooth: bool) -> None:
    values, _ = upsample(np.full((5, 3), 1 / 15), whole(101, 67), (101, 67), smooth=smooth)
    np.testing.assert_allclose(values, 1 / 15, rtol=1e-12)


@pytest.mark.parametrize("smooth", [True, False])
def test_the_borders_hold_beyond_the_outermost_centres(smooth: bool) -> None:
    weights = random_weights(3, 5)
    values, _ = upsample(weights, whole(55, 39), (55, 39), smooth=smooth)
    for rows, row in ((slice(0, 7), 0), (slice(32, 39), -1)):
        for columns, column in ((slice(0, 6), 0), (slice(49, 55), -1)):
            np.testing.assert_allclose(values[rows, columns], weights[row, column])


def test_a_cell_reaches_no_further_than_two_cells() -> None:
    weights = np.zeros((1, 7))
    weights[0, 6] = 1
    values, _ = upsample(weights, whole(77, 5), (77, 5))
    assert (values[:, :49] == 0).all()  # up to the centre of cell 4
    assert (values[:, 66:] > 0).all()


def test_a_ramp_stays_straight_between_the_second_and_the_last_but_one_centre() -> None:
    ramp = np.tile(np.arange(8.0), (3, 1))
    values, _ = upsample(ramp, whole(80, 30), (80, 30))
    places = (np.arange(80) + 0.5) / 10 - 0.5
    inside = (places >= 1) & (places <= 6)
    np.testing.assert_allclose(values[:, inside], np.tile(places[inside], (30, 1)), atol=1e-12)


def test_without_smoothing_each_cell_is_a_block() -> None:
    weights = random_weights(3, 5)
    values, _ = upsample(weights, whole(35, 33), (35, 33), smooth=False)
    np.testing.assert_allclose(values, np.kron(weights, np.ones((11, 7))))


def test_rows_run_down_and_columns_run_right() -> None:
    weights = random_weights(5, 3)
    box = Box(7, -11, 71, 60)
    values, seen = upsample(weights, Placement(83, 47, box), (83, 47))
    turned_box = Box(box.top, box.left, box.bottom, box.right)
    turned, turned_seen = upsample(weights.T, Placement(47, 83, turned_box), (47, 83))
    np.testing.assert_allclose(values, turned.T)
    np.testing.assert_array_equal(seen, turned_seen.T)


def test_a_crop_shows_the_same_in_its_box_and_nothing_outside() -> None:
    weights = random_weights(4, 7)
    values, seen = upsample(weights, Placement(200, 100, Box(60, 8, 130, 92)), (200, 100))
    alone, _ = upsample(weights, whole(70, 84), (70, 84))
    np.testing.assert_allclose(values[8:92, 60:130], alone)
    assert seen[8:92, 60:130].all()
    assert seen.sum() == 70 * 84


def test_a_padded_input_shows_its_middle_part() -> None:
    weights = random_weights(6, 6)
    values, seen = upsample(weights, Placement(60, 30, Box(0, -15, 60, 45)), (60, 30))
    square, _ = upsample(weights, whole(60, 60), (60, 60))
    np.testing.assert_allclose(values, square[15:45])
    assert seen.all()


def test_a_picture_drawn_smaller_shows_the_same_map() -> None:
    placement = Placement(300, 210, Box(45, 0, 255, 210))
    large, _ = upsample(random_weights(7, 7), placement, (300, 210))
    small, _ = upsample(random_weights(7, 7), placement, (100, 70))
    np.testing.assert_allclose(small, large[1::3, 1::3])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros((2, 3, 4)), r"expected \(rows, columns\), got \(2, 3, 4\)"),
        (np.zeros((0, 3)), r"got \(0, 3\)"),
        (np.array([[0.5, np.nan]]), "expected finite numbers"),
        (np.array([[0.5, -0.1]]), r"got -0\.1 to 0\.5; give weights, not scores"),
    ],
)
def test_what_is_no_map_is_refused(weights: np.ndarray, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        upsample(weights, whole(5, 5), (5, 5))


def test_each_word_needs_its_map() -> None:
    check_maps(["a", "dog"], np.zeros((2, 3, 5)))
    with pytest.raises(ShapeError, match=r"expected \(2, rows, columns\) for 2 words, got \(3, 3, 5\)"):
        check_maps(["a", "dog"], np.zeros((3, 3, 5)))
    with pytest.raises(ShapeError, match="finite"):
        check_maps(["a", "dog"], np.full((2, 3, 5), np.inf))
