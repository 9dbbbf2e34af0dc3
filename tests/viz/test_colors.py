"""Colour maps by name: their ends, their anchors, and a plotting library as judge of the shapes between."""

import numpy as np
import pytest

from captioning.errors import ConfigError
from captioning.viz.colors import COLOR_MAPS, colorize

NAMES_ELSEWHERE = {"grey": "gray"}


@pytest.mark.parametrize("name", COLOR_MAPS)
def test_the_plotting_library_draws_the_same_colours(name: str) -> None:
    colormaps = pytest.importorskip("matplotlib").colormaps
    values = np.linspace(0, 1, 211)
    expected = 255 * colormaps[NAMES_ELSEWHERE.get(name, name)](values)[:, :3]
    assert np.abs(colorize(values, name) - expected).mean() < 6  # straight lines between anchors
    np.testing.assert_allclose(colorize(np.array([0.0, 1.0]), name), expected[[0, -1]], atol=12)


@pytest.mark.parametrize("name", COLOR_MAPS)
def test_anchors_are_met_and_values_beyond_the_ends_stay_there(name: str) -> None:
    anchors = [list(bytes.fromhex(color)) for color in COLOR_MAPS[name].split()]
    assert colorize(np.linspace(0, 1, len(anchors)), name).tolist() == anchors
    assert colorize(np.array([-3.0, 7.0]), name).tolist() == [anchors[0], anchors[-1]]


def test_any_shape_gets_a_last_axis_of_three() -> None:
    colors = colorize(np.full((5, 7), 0.5), "grey")
    assert colors.shape == (5, 7, 3)
    assert colors.dtype == np.uint8


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"color map: expected one of inferno, .*, got 'infra'"):
        colorize(np.zeros((2, 2)), "infra")
