"""Length penalties by their formulas."""

from functools import partial

import pytest

from captioning.decoding.ranking import RANKINGS, length_penalty, wu
from captioning.errors import ConfigError


def test_penalties_at_special_points():
    assert RANKINGS["none"](17) == 1
    assert RANKINGS["average"](17) == 17
    assert wu(1, alpha=0.3) == 1
    assert wu(7, alpha=1.0) == 2
    assert wu(31, alpha=0.5) == pytest.approx(6**0.5)
    assert wu(13, alpha=0.0) == 1


@pytest.mark.parametrize("ranking", RANKINGS)
def test_penalties_do_not_fall_with_length(ranking):
    values = [RANKINGS[ranking](length) for length in range(1, 51)]
    assert values == sorted(values)
    assert values[0] > 0


def test_a_function_is_taken_as_it_is():
    assert length_penalty(partial(wu, alpha=1.0))(13) == 3


def test_an_unknown_ranking_is_named():
    with pytest.raises(ConfigError, match="'sum'"):
        length_penalty("sum")
