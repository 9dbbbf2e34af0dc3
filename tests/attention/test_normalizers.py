"""Normalizers: each against what defines it, and what all of them promise."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from captioning.attention import NORMALIZERS, entmax15, log_softmax, masks, softmax, sparsemax
from captioning.attention.normalizers import reweighted, safe_log
from captioning.errors import ConfigError
from tests.oracles.projections import entmax15_by_bisection, nearest_on_the_simplex

FUNCTIONS = {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15}
LEARNING = sorted(set(NORMALIZERS) - {"uniform"})  # uniform is a control that does not read the scores
EXACT = {"atol": 1e-12, "rtol": 0}


def seeded(seed, *shape, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, dtype=torch.float64, generator=generator)).to(dtype)


def some_mask(seed, *shape):
    """Random, with at least one key in every row."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(*shape, generator=generator)
    return (chosen < 0.6) | (chosen == chosen.amin(-1, keepdim=True))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_sparsemax_is_the_nearest_point_of_the_simplex(size, scale):
    scores = seeded(size, 31, size, scale=scale)
    expected = torch.stack([nearest_on_the_simplex(row) for row in scores])
    torch.testing.assert_close(sparsemax(scores), expected, **EXACT)


@pytest.mark.parametrize("size", [1, 2, 5, 61])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_entmax15_solves_its_equation(size, scale):
    scores = seeded(size, 31, size, scale=scale)
    expected = torch.stack([entmax15_by_bisection(row) for row in scores])
    torch.testing.assert_close(entmax15(scores), expected, **EXACT)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_sparse_normalizers_agree_with_the_entmax_package(name, dim):
    judge = getattr(pytest.importorskip("entmax", reason="the entmax package is the judge"), name)
    scores = seeded(1, 7, 11, 13, scale=3.0).requires_grad_()
    toward = seeded(2, 7, 11, 13)
    ours, theirs = FUNCTIONS[name](scores, dim=dim), judge(scores, dim=dim)
    torch.testing.assert_close(ours, theirs, **EXACT)
    gradients = [torch.autograd.grad(weights, scores, toward)[0] for weights in (ours, theirs)]
    torch.testing.assert_close(*gradients, **EXACT)


def test_closed_forms_of_two_keys():
    """With scores (t, 0): sparsemax gives (1 + t) / 2, clamped; entmax15 gives (1, 0) from t = 2 on."""
    steps = torch.linspace(-3, 3, 13, dtype=torch.float64)
    scores = torch.stack([steps, torch.zeros_like(steps)], -1)
    torch.testing.assert_close(sparsemax(scores)[:, 0], ((1 + steps) / 2).clamp(0, 1), **EXACT)
    torch.testing.assert_close(entmax15(scores)[6], torch.full((2,), 0.5, dtype=torch.float64), **EXACT)
    assert (entmax15(scores)[steps >= 2] == torch.tensor([1.0, 0.0])).all()
    assert (entmax15(scores)[(steps > -2) & (steps < 2)] > 0).all()


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_on_every_axis(name, dim, masked):
    scores = seeded(3, 2, 3, 5).requires_grad_()
    mask = some_mask(4, 2, 3, 5).transpose(-1, dim) if masked and dim in (-1, 2) else None
    if masked and mask is None:
        mask = torch.ones(2, 3, 5, dtype=torch.bool)
        mask.select(dim, 0)[..., 0] = False
    assert torch.autograd.gradcheck(lambda s: FUNCTIONS[name](s, mask, temperature=0.7, dim=dim), (scores,))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("dim", [0, 1, -2])
def test_an_axis_is_the_last_one_moved(name, dim):
    scores, mask = seeded(5, 3, 5, 7), some_mask(6, 3, 5, 7)
    function = FUNCTIONS[name]
    moved = function(scores.movedim(-1, dim), mask.movedim(-1, dim), dim=dim)
    torch.testing.assert_close(moved.movedim(dim, -1), function(scores, mask), **EXACT)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(NORMALIZERS)),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 17)),
    seed=st.integers(0, 2**20),
    scale=st.sampled_from([0.0, 0.3, 3.0, 300.0]),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
)
def test_whatever_the_scores_weights_lie_on_the_simplex_of_available_keys(name, sizes, seed, scale, dtype):
    scores, mask = seeded(seed, *sizes, dtype=dtype, scale=scale), some_mask(seed, *sizes)
    weights = NORMALIZERS[name]()(scores, mask)
    assert weights.dtype == (dtype if dtype == torch.float64 else torch.float32)
    assert (weights >= 0).all()
    assert (weights[~mask] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[:, 0]), atol=1e-5, rtol=0)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(NORMALIZERS)), size=st.integers(1, 17), seed=st.integers(0, 2**20))
def test_shifted_permuted_and_alone(name, size, seed):
    """A shift changes nothing; permuted scores permute the weights; masked is the same as absent."""
    normalizer = NORMALIZERS[name](temperature=0.8)
    scores, mask = seeded(seed, size), some_mask(seed, size)
    weights = normalizer(scores, mask)
    torch.testing.assert_close(normalizer(scores + 7, mask), weights, **EXACT)
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(normalizer(scores[order], mask[order]), weights[order], **EXACT)
    torch.testing.assert_close(weights[mask], normalizer(scores[mask]), **EXACT)


@pytest.mark.parametrize("name", sorted(NORMALIZERS))
def test_a_larger_score_has_no_smaller_weight(name):
    weights = NORMALIZERS[name]()(seeded(9, 11, 13).sort(-1).values)
    assert (weights.diff(dim=-1) >= 0).all()


@pytest.mark.parametrize("name", LEARNING)
def test_temperature_divides_the_scores(name):
    scores = seeded(10, 3, 5)
    cooled = NORMALIZERS[name](temperature=0.5)
    torch.testing.assert_close(cooled(scores), NORMALIZERS[name]()(scores * 2), **EXACT)
    cooled.temperature = 2.0  # a schedule may change it
    torch.testing.assert_close(cooled(scores), NORMALIZERS[name]()(scores / 2), **EXACT)


@pytest.mark.parametrize("name", sorted(NORMALIZERS))
@pytest.mark.parametrize("temperature", [0, -1.0, float("nan")])
def test_a_temperature_is_positive(name, temperature):
    with pytest.raises(ConfigError, match="temperature: expected a number > 0"):
        NORMALIZERS[name](temperature=temperature)


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize("held", [torch.nan, torch.inf, -torch.inf, 6e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_masked_keys_are_inert_whatever_they_hold(name, held, dtype):
    normalizer = NORMALIZERS[name]()
    mask, scores = some_mask(1, 3, 7), seeded(2, 3, 7, dtype=dtype)
    plain = scores.clone().requires_grad_()
    spoiled = scores.masked_fill(~mask, held).requires_grad_()
    toward = seeded(3, 3, 7, dtype=torch.float32)
    normalizer(plain, mask).backward(toward)
    weights = normalizer(spoiled, mask)
    weights.backward(toward)
    torch.testing.assert_close(weights, normalizer(plain, mask))
    torch.testing.assert_close(spoiled.grad, plain.grad)
    assert (spoiled.grad[~mask] == 0).all()


@pytest.mark.parametrize("name", sorted(NORMALIZERS))
@pytest.mark.parametrize("with_factor", [False, True])
def test_a_row_without_keys_is_zero_in_the_fast_path_with_finite_gradients(name, with_factor):
    scores, mask = seeded(1, 3, 5).requires_grad_(), some_mask(2, 3, 5)
    factor = seeded(4, 3, 5).requires_grad_()
    mask[1] = False
    weights = NORMALIZERS[name]()(scores, mask, factor if with_factor else None)
    assert (weights[1] == 0).all()
    assert (weights[[0, 2]].sum(-1) - 1).abs().max() < 1e-12
    (weights * 1e30).square().sum().backward() if weights.requires_grad else None
    for leaf in (scores, factor):
        assert leaf.grad is None or (leaf.grad.isfinite().all() and (leaf.grad[1] == 0).all())


def test_uniform_reads_no_scores():
    mask = some_mask(3, 3, 7)
    weights = NORMALIZERS["uniform"]()(seeded(2, 3, 7), mask)
    torch.testing.assert_close(weights, mask / mask.sum(-1, keepdim=True, dtype=torch.float64))


def test_softmax_is_never_zero_where_sparse_ones_are():
    scores = torch.tensor([3.0, 2.9, 0.0, -1.0], dtype=torch.float64)
    assert (softmax(scores) > 0).all()
    assert (sparsemax(scores) > 0).tolist() == [True, True, False, False]
    assert (entmax15(scores) > 0).tolist() == [True, True, False, False]


def test_log_softmax_is_finite_where_softmax_underflows():
    scores = torch.tensor([200.0, 0.0])
    assert softmax(scores)[1] == 0
    assert log_softmax(scores).tolist() == [0.0, -200.0]
    masked = torch.tensor([200.0, 0.0, torch.nan], requires_grad=True)
    logs = log_softmax(masked, torch.tensor([True, True, False]))
    assert logs.tolist() == [0.0, -200.0, -torch.inf]
    logs[:2].sum().backward()
    assert masked.grad.tolist() == [-1.0, 1.0, 0.0]


def test_zeroing_after_normalizing_is_not_masking():
    """Zeroing leaves rows that do not sum to one. Renormalized it is masking for softmax, but not for sparsemax."""
    scores, mask = seeded(5, 7, 7), masks.causal_mask(7)
    for name, function in FUNCTIONS.items():
        zeroed, masked = function(scores) * mask, function(scores, mask)
        assert not torch.allclose(zeroed, masked)
        for row in range(7):
            kept = masked[row, : row + 1]
            torch.testing.assert_close(kept, function(scores[row, : row + 1]), msg=name)
    renormalized = softmax(scores) * mask / (softmax(scores) * mask).sum(-1, keepdim=True)
    torch.testing.assert_close(renormalized, softmax(scores, mask))
    scores = torch.tensor([0.0, 0.5, 0.9])
    first_two = torch.tensor([True, True, False])
    zeroed = sparsemax(scores) * first_two
    assert not torch.allclose(zeroed / zeroed.sum(), sparsemax(scores, first_two))


@pytest.mark.parametrize("name", sorted(NORMALIZERS))
def test_a_factor_multiplies_and_renormalizes(name):
    normalizer = NORMALIZERS[name](temperature=0.7)
    scores, mask, factor = seeded(6, 3, 7), some_mask(7, 3, 7), seeded(8, 3, 7)
    products = normalizer(scores, mask) * factor.exp()
    expected = products / products.sum(-1, keepdim=True)
    torch.testing.assert_close(normalizer(scores, mask, factor), expected, **EXACT)
    logs = normalizer.log_weights(scores, mask, factor)
    torch.testing.assert_close(safe_log(expected) if logs is None else logs, safe_log(expected), atol=1e-10, rtol=0)
    leaves = (scores.requires_grad_(), factor.requires_grad_())
    assert torch.autograd.gradcheck(lambda s, f: normalizer(s, mask, f), leaves)


def test_a_factor_that_underflows_still_leaves_a_distribution():
    weights = reweighted(torch.tensor([0.5, 0.5, 0.0]), torch.tensor([-1000.0, -1001.0, 0.0]))
    torch.testing.assert_close(weights, torch.tensor([0.7310586, 0.2689414, 0.0]))


def test_scores_that_are_not_a_number_do_not_end_the_process():
    for function in FUNCTIONS.values():
        assert function(torch.tensor([1.0, torch.nan])).isnan().all()


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize("low", [-1e30, torch.finfo(torch.float32).min, -torch.inf])
def test_scores_far_below_the_best_get_nothing_and_spoil_nothing(name, low):
    scores = torch.tensor([0.3, low, 0.0, low, 0.2], requires_grad=True)
    weights = NORMALIZERS[name]()(scores)
    (gradient,) = torch.autograd.grad(weights.sin().sum(), scores)
    kept = torch.tensor([0.3, 0.0, 0.2], requires_grad=True)
    expected = NORMALIZERS[name]()(kept)
    torch.testing.assert_close(weights, expected.new_zeros(5).index_copy(0, torch.tensor([0, 2, 4]), expected))
    (alone,) = torch.autograd.grad(expected.sin().sum(), kept)
    torch.testing.assert_close(gradient[[0, 2, 4]], alone)
    assert (gradient[[1, 3]] == 0).all()


def test_half_precision_masks_exactly():
    scores = torch.tensor([1, 2, -20000, 5], dtype=torch.float16)
    mask = torch.tensor([True, True, False, False])
    for function in FUNCTIONS.values():
        torch.testing.assert_close(function(scores, mask)[:2], function(torch.tensor([1.0, 2.0])))
