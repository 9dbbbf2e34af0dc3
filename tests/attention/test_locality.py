"""Windows against loops, on lines and grids: where the centre is, what the border keeps, and the Gaussian."""

import math

import pytest
import torch

from captioning.attention import NORMALIZERS, SELECTIONS, Attention, masks
from captioning.errors import ConfigError, ShapeError

B, N, DQ, DK, DV, A = 2, 3, 7, 11, 13, 17
ROWS, COLUMNS = 3, 5
GRID = (ROWS, COLUMNS)
R = ROWS * COLUMNS
CELLS = [(row, column) for row in range(ROWS) for column in range(COLUMNS)]
EXACT = {"atol": 1e-6, "rtol": 1e-6}  # positions are float32


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def build(locality, **settings):
    return Attention(query_width=DQ, key_width=DK, width=A, locality=locality, **settings).double()


def places(grid):
    return CELLS if grid else [(0, j) for j in range(R)]


def steps(cell, centre):
    return max(abs(cell[0] - centre[0]), abs(cell[1] - centre[1]))


def window(centre, radius, grid, available=None):
    """By a loop: the available keys of the window, or the nearest available ones."""
    available = range(R) if available is None else available
    distances = {j: steps(places(grid)[j], centre) for j in available}
    reach = max(radius, min(distances.values()))
    return {j for j, distance in distances.items() if distance <= reach}


def seen(mask_row):
    return set(mask_row.nonzero().flatten().tolist())


@pytest.mark.parametrize("radius", [0, 1, 2, 7])
def test_the_own_position_is_the_centre_in_self_attention(radius):
    """The window is that of the mask builders, whose loops are tested there."""
    attention, keys, queries = build("local_m", window=radius), draw(B, R, DK), draw(B, R, DQ)
    on_line = attention.scores(queries, attention.remember(keys), positions=torch.arange(R))
    assert on_line.mask.equal(masks.window_mask(R, radius).expand(B, R, R))
    on_grid = attention.scores(queries, attention.remember(keys, grid=GRID), positions=torch.tensor(CELLS))
    assert on_grid.mask.equal(masks.grid_window_mask(ROWS, COLUMNS, radius).expand(B, R, R))


@pytest.mark.parametrize("grid", [None, GRID])
@pytest.mark.parametrize("radius", [0, 1, 3])
def test_in_captions_the_centre_is_the_expected_cell_of_the_step_before(grid, radius):
    attention = build("local_m", window=radius)
    memory = attention.remember(draw(B, R, DK), grid=grid)
    previous = draw(B, N, R).softmax(-1)
    mask = attention.scores(draw(B, N, DQ), memory, previous).mask
    for b in range(B):
        for n in range(N):
            mean = [sum(previous[b, n, j].item() * places(grid)[j][axis] for j in range(R)) for axis in range(2)]
            assert seen(mask[b, n]) == window([round(part) for part in mean], radius, grid)


def test_weights_that_do_not_sum_to_one_have_the_same_centre_and_no_weight_at_all_sees_everything():
    attention = build("local_m", window=1)
    memory, queries = attention.remember(draw(B, R, DK), grid=GRID), draw(B, N, DQ)
    previous = draw(B, N, R).softmax(-1)
    expected = attention.scores(queries, memory, previous).mask
    assert attention.scores(queries, memory, previous * 0.3).mask.equal(expected)
    assert attention.scores(queries, memory, torch.zeros_like(previous)).mask.all()
    available = masks.padding_mask(torch.tensor([5, 11]), R)
    padded = attention.remember(draw(B, R, DK), mask=available, grid=GRID)
    blind = attention.scores(queries, padded, torch.zeros_like(previous)).mask
    assert blind.equal(available.unsqueeze(1).expand(B, N, R))


def test_the_first_step_sees_all_keys_and_later_ones_do_not_ask_the_step_before_for_a_gradient():
    attention = build("local_m", window=1)
    memory, queries, previous = attention.remember(draw(B, R, DK), grid=GRID), draw(B, N, DQ), draw(B, N, R)
    assert attention.scores(queries, memory).mask is None
    attended = attention(queries, memory, previous.softmax(-1))
    assert torch.autograd.grad(attended.context.sum(), previous, allow_unused=True) == (None,)
    fewer = attention(queries[:1], memory, previous[:1].softmax(-1))
    torch.testing.assert_close(fewer.context, attended.context[:1])


@pytest.mark.parametrize("locality", ["local_m", "local_p"])
@pytest.mark.parametrize("grid", [None, GRID])
def test_a_window_without_an_available_key_grows_to_the_nearest(locality, grid):
    generator = torch.Generator().manual_seed(5)
    attention = build(locality, window=1)
    for _ in range(10):
        available = torch.rand(B, R, generator=generator) < 0.15
        available[:, int(torch.randint(R, (1,), generator=generator))] = True
        memory = attention.remember(draw(B, R, DK), mask=available, grid=grid)
        queries, previous = 5 * draw(B, N, DQ), (5 * draw(B, N, R)).softmax(-1)
        scored = attention.scores(queries, memory, previous)
        if locality == "local_p":
            centres = attention.locality.centres(queries, memory.cells)
        else:
            cells = torch.tensor(places(grid), dtype=torch.float64)
            centres = (previous @ cells).round()
        for b in range(B):
            for n in range(N):
                kept = available[b].nonzero().flatten().tolist()
                assert seen(scored.mask[b, n]) == window(centres[b, n].tolist(), 1, grid, kept)
        attended = attention(queries, memory, previous)
        torch.testing.assert_close(attended.weights.sum(-1), torch.ones(B, N, dtype=torch.float64))


def predicted_by_a_loop(attention, query, scores, *, grid, radius, unnormalized, available):
    """Luong's equations 9 and 10 for one query, word for word, with the last cell in place of S."""
    last = [max(places(grid)[j][axis] for j in available) for axis in range(2)]
    hidden = torch.tanh(attention.locality.to_hidden.weight @ query)
    centre = [last[axis] * torch.sigmoid(attention.locality.to_centre.weight[axis] @ hidden) for axis in range(2)]
    kept = sorted(window([part.item() for part in centre], radius, grid, available))
    normalized = type(attention.normalizer).function(scores[kept])
    weights = torch.zeros(R, dtype=torch.float64)
    for j, weight in zip(kept, normalized, strict=True):
        squared = sum((place - part) ** 2 for place, part in zip(places(grid)[j], centre, strict=True))
        weights[j] = weight * torch.exp(-squared / (2 * (radius / 2) ** 2))
    return weights if unnormalized else weights / weights.sum()


@pytest.mark.parametrize("grid", [None, GRID])
@pytest.mark.parametrize("unnormalized", [False, True])
@pytest.mark.parametrize("normalizer", sorted(set(NORMALIZERS) - {"uniform"}))
def test_predicted_windows_equal_a_loop(grid, unnormalized, normalizer):
    radius = 2
    attention = build("local_p", window=radius, luong_unnormalized=unnormalized, normalizer=normalizer)
    lengths = [R, 11]
    keys, queries = draw(B, R, DK), draw(B, N, DQ)
    memory = attention.remember(keys, mask=masks.padding_mask(torch.tensor(lengths), R), grid=grid)
    attended = attention(queries, memory)
    scores = attention.score(queries, memory.score)
    for b in range(B):
        for n in range(N):
            expected = predicted_by_a_loop(
                attention,
                queries[b, n],
                scores[b, n],
                grid=grid,
                radius=radius,
                unnormalized=unnormalized,
                available=range(lengths[b]),
            )
            torch.testing.assert_close(attended.weights[b, n], expected, **EXACT)
    if not unnormalized:
        torch.testing.assert_close(attended.weights.sum(-1), torch.ones(B, N, dtype=torch.float64))


@pytest.mark.parametrize("logit", [-100.0, 0.0, 100.0])
def test_the_centre_runs_from_the_first_to_the_last_valid_cell(logit):
    attention = build("local_p")
    with torch.no_grad():
        attention.locality.to_hidden.weight.copy_(torch.eye(A, DQ))
        attention.locality.to_centre.weight.copy_(torch.full((2, A), logit))
    queries = torch.full((B, N, DQ), 3.0, dtype=torch.float64)
    mask = masks.padding_mask(torch.tensor([R, 8]), R)
    share = 1 / (1 + math.exp(-logit * DQ * math.tanh(3)))
    on_line = attention.locality.centres(queries, attention.remember(draw(B, R, DK), mask=mask).cells)
    on_grid = attention.locality.centres(queries, attention.remember(draw(B, R, DK), mask=mask, grid=GRID).cells)
    for b, (length, last_row) in enumerate([(R, ROWS - 1), (8, 1)]):
        torch.testing.assert_close(on_line[b, 0].tolist(), [0.0, share * (length - 1)], **EXACT)
        torch.testing.assert_close(on_grid[b, 0].tolist(), [share * last_row, share * (COLUMNS - 1)], **EXACT)


def test_centres_are_as_fine_as_float32_in_half_precision():
    """A sigmoid in bfloat16 has steps of 1/256 and would miss cells of a long line."""
    attention = build("local_p").bfloat16()
    queries, line = torch.randn(1, 31, DQ, dtype=torch.bfloat16), torch.zeros(1, 10_000, DK, dtype=torch.bfloat16)
    centres = attention.locality.centres(queries, attention.remember(line).cells)
    logits = attention.locality.to_centre(attention.locality.to_hidden(queries).tanh())
    torch.testing.assert_close(centres[..., 1], 9_999 * logits[..., 1].float().sigmoid())


@pytest.mark.parametrize("grid", [None, GRID])
@pytest.mark.parametrize("normalizer", sorted(NORMALIZERS))
@pytest.mark.parametrize("unnormalized", [False, True])
def test_everything_is_differentiable_with_respect_to_the_centre(grid, normalizer, unnormalized):
    attention = build("local_p", normalizer=normalizer, luong_unnormalized=unnormalized, frozen_scores=True)
    memory = attention.remember(torch.randn(B, R, DK, dtype=torch.float64), grid=grid)
    weight = attention.locality.to_centre.weight
    queries = torch.randn(B, N, DQ, dtype=torch.float64)

    def weights_of(to_centre):
        scored = torch.func.functional_call(
            attention.locality,
            {"to_centre.weight": to_centre},
            (attention.scores(queries, memory)._replace(log_factor=None), queries, memory.cells),
        )
        return attention.normalize(scored)

    assert torch.autograd.gradcheck(weights_of, (weight.detach().clone().requires_grad_(),))
    attention(queries, memory).context.sin().sum().backward()
    for parameter in attention.locality.parameters():
        assert parameter.grad.any()


@pytest.mark.parametrize("selection", sorted(SELECTIONS))
def test_soft_and_hard_are_independent_of_local_and_global(selection):
    """A window of one cell leaves every selection the same choice."""
    attention = build("local_m", window=0, selection=selection).eval()
    keys, values, previous = draw(B, R, DK), draw(B, R, DV), torch.zeros(B, N, R, dtype=torch.float64)
    previous[..., 8] = 1
    attended = attention(draw(B, N, DQ), attention.remember(keys, values, grid=GRID), previous)
    torch.testing.assert_close(attended.context, values[:, 8:9].expand(B, N, DV))


def test_a_row_without_any_key_is_zero_with_finite_gradients():
    for locality in ("local_m", "local_p"):
        for normalizer in sorted(NORMALIZERS):
            attention = build(locality, normalizer=normalizer)
            mask = torch.ones(B, R, dtype=torch.bool)
            mask[1] = False
            queries = draw(B, N, DQ)
            memory = attention.remember(draw(B, R, DK), mask=mask, grid=GRID, check=False)
            attended = attention(queries, memory, torch.full((B, N, R), 1 / R))
            assert (attended.weights[1] == 0).all()
            assert (attended.context[1] == 0).all()
            attended.context.sum().backward()
            for tensor in (queries, *attention.parameters()):
                assert tensor.grad is None or tensor.grad.isfinite().all()


def test_one_image_alone_and_selected_images_see_the_same():
    for locality in ("local_m", "local_p"):
        attention = build(locality, window=1)
        keys, queries, previous = draw(B, R, DK), draw(B, N, DQ), draw(B, N, R).softmax(-1)
        mask = masks.padding_mask(torch.tensor([7, R]), R)
        memory = attention.remember(keys, mask=mask, grid=GRID)
        attended = attention(queries, memory, previous)
        with torch.no_grad():
            swapped = attention(queries[[1, 0]], memory.select(torch.tensor([1, 0])), previous[[1, 0]])
        torch.testing.assert_close(swapped.context, attended.context[[1, 0]])


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="LocalP window: expected a half-width of at least 1, got 0"):
        build("local_p", window=0)
    with pytest.raises(ConfigError, match="LocalM window: expected a half-width of at least 0, got -1"):
        build("local_m", window=-1)
    attention = build("local_m")
    with pytest.raises(ShapeError, match=r"grid: expected rows · columns = R = 15, got 3 · 4"):
        attention.remember(draw(B, R, DK), grid=(3, 4))
    memory, queries = attention.remember(draw(B, R, DK), grid=GRID), draw(B, N, DQ)
    with pytest.raises(ShapeError, match=r"positions: expected \(N, axes\) with N = 3, axes = 2, got \(3,\)"):
        attention(queries, memory, positions=torch.arange(N))
    with pytest.raises(ShapeError, match=r"positions: expected .* got \(4, 2\)"):
        attention(queries, memory, positions=torch.zeros(4, 2))
    with pytest.raises(ShapeError, match=r"previous: expected \(B, N, R\) with B = 2, N = 3, R = 15, got \(2, 3, 16\)"):
        attention(queries, memory, draw(B, N, R + 1))
    with pytest.raises(ShapeError, match="expected one of `previous`"):
        attention(queries, memory, draw(B, N, R), positions=torch.zeros(N, 2))
