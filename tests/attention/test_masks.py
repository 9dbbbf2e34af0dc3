"""Masks against loops, their conversion, and their messages."""

import pytest
import torch

from captioning.attention import masks
from captioning.errors import ShapeError


def test_mask_builders():
    assert masks.padding_mask(torch.tensor([2, 0]), 3).tolist() == [[True, True, False], [False] * 3]
    assert masks.causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True] * 3]
    with pytest.raises(ShapeError, match="at most R = 3, got 4"):
        masks.padding_mask(torch.tensor([4]), 3)


@pytest.mark.parametrize("radius", [0, 1, 2, 9])
def test_windows_equal_loops_and_keep_what_exists_at_the_border(radius):
    line = [[abs(i - j) <= radius for j in range(5)] for i in range(5)]
    assert masks.window_mask(5, radius).tolist() == line
    cells = [(row, column) for row in range(3) for column in range(5)]
    grid = [[abs(a - c) <= radius and abs(b - d) <= radius for c, d in cells] for a, b in cells]
    assert masks.grid_window_mask(3, 5, radius).tolist() == grid


def test_a_window_wants_a_radius():
    with pytest.raises(ShapeError, match="radius: expected the half-width of a window, at least 0, got -1"):
        masks.window_mask(3, -1)


def test_an_additive_mask_is_a_boolean_one_in_other_words():
    allowed = torch.tensor([[True, False, True]])
    additive = torch.zeros(1, 3).masked_fill(~allowed, -torch.inf)
    assert masks.from_additive(additive).equal(allowed)
    assert masks.as_boolean(additive).equal(allowed)
    assert masks.as_boolean(allowed) is allowed
    with pytest.raises(ShapeError, match="expected only 0"):
        masks.from_additive(torch.tensor([1.0]))
    with pytest.raises(ShapeError, match="expected floating point"):
        masks.from_additive(torch.tensor([1]))
    with pytest.raises(ShapeError, match="expected a boolean mask"):
        masks.as_boolean(torch.tensor([1]))


def test_combining_is_and_with_none_for_no_restriction():
    padding = masks.padding_mask(torch.tensor([2, 5]), 5).unsqueeze(1)
    causal = masks.causal_mask(5)
    both = masks.combine(None, padding, causal)
    for image, length in enumerate([2, 5]):
        assert both[image].tolist() == [[j <= i and j < length for j in range(5)] for i in range(5)]
    additive = torch.zeros(5, 5).masked_fill(~causal, -torch.inf)
    assert masks.combine(padding, additive).equal(both)
    assert masks.combine(causal).equal(causal)
    assert masks.combine(None, None) is None
    with pytest.raises(ShapeError, match=r"expected shapes that broadcast, got \(5, 5\) and \(3,\)"):
        masks.combine(causal, torch.ones(3, dtype=torch.bool))


def test_the_first_row_without_a_key_is_named():
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    masks.check_available(mask)
    mask[1, 0], mask[1, 2] = False, False
    with pytest.raises(ShapeError, match=r"mask: row \(1, 0\) allows no key at all"):
        masks.check_available(mask)
