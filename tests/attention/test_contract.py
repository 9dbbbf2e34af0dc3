"""What every attention promises, for every name in the tables: a part that is added is tested the day it is added."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from captioning.attention import LOCALITY, NORMALIZERS, SCORES, SELECTIONS, Attention, Gumbel, Mixed, masks
from captioning.errors import ConfigError, ShapeError

B, N, R, DQ, DK, DV, A = 2, 3, 5, 7, 11, 13, 17
GENERATOR_SEED = 3


def normal(seed, *shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def build(score="additive", locality="global", normalizer="softmax", selection="soft", **settings):
    """In training mode but for argmax, which is refused there."""
    names = {"score": score, "locality": locality, "normalizer": normalizer, "selection": selection}
    attention = Attention(query_width=DQ, key_width=DK, width=A, window=1, **names, **settings).double()
    return attention.train(selection != "argmax")


def attend(attention, queries, keys, values, mask=None, previous=None):
    memory = attention.remember(keys, values, mask)
    return attention(queries, memory, previous, generator=torch.Generator().manual_seed(GENERATOR_SEED))


def some_mask(seed, *shape):
    chosen = torch.rand(*shape, generator=torch.Generator().manual_seed(seed))
    return (chosen < 0.6) | (chosen == chosen.amin(-1, keepdim=True))


EVERY_COMBINATION = list(product(sorted(SCORES), sorted(LOCALITY), sorted(NORMALIZERS), sorted(SELECTIONS)))


def test_the_tables_hold_the_names_of_the_contract():
    assert set(SCORES) == {"additive", "concat", "dot", "general", "scaled_dot"}
    assert set(LOCALITY) == {"global", "local_m", "local_p"}
    assert set(NORMALIZERS) == {"softmax", "sparsemax", "entmax15", "uniform"}
    assert set(SELECTIONS) == {"soft", "hard", "argmax", "gumbel", "mixed"}


def test_every_combination_of_parts_attends():
    """Weights on the simplex of the available keys, the context in the hull of their values, gradients finite."""
    queries, values, mask = normal(1, B, N, DQ), normal(2, B, R, DV), some_mask(3, B, R)
    keys, previous = normal(4, B, R, DK), normal(5, B, N, R).softmax(-1)
    kept = values.masked_fill(~mask.unsqueeze(-1), torch.inf).amin(1, keepdim=True)
    largest = values.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(1, keepdim=True)
    for names in EVERY_COMBINATION:
        leaf = queries.clone().requires_grad_()
        attended = attend(build(*names), leaf, keys, values, mask, previous)
        assert attended.context.shape == (B, N, DV), names
        assert (attended.weights >= 0).all(), names
        assert (attended.weights.transpose(1, 2)[~mask] == 0).all(), names
        assert ((attended.weights.sum(-1) - 1).abs() < 1e-12).all(), names
        assert ((attended.context > kept - 1e-12) & (attended.context < largest + 1e-12)).all(), names
        assert (attended.entropy > -1e-12).all(), names
        if attended.index is not None:
            assert mask.gather(1, attended.index).all(), names
        if attended.context.requires_grad:
            attended.context.sin().sum().backward()
            assert leaf.grad is None or leaf.grad.isfinite().all(), names


@pytest.mark.parametrize("selection", ["soft", "gumbel"])
@pytest.mark.parametrize("normalizer", sorted(set(NORMALIZERS) - {"uniform"}))
@pytest.mark.parametrize("locality", sorted(LOCALITY))
@pytest.mark.parametrize("score", sorted(SCORES))
def test_a_gradient_reaches_every_parameter_and_input(score, locality, normalizer, selection):
    attention = build(score, locality, normalizer, selection, temperature=5.0)  # so warm that no weight is 0
    leaves = [normal(seed, B, *shape).requires_grad_() for seed, shape in enumerate([(N, DQ), (R, DK), (R, DV)])]
    attend(attention, *leaves).context.sin().sum().backward()
    for tensor in [*leaves, *attention.parameters()]:
        assert tensor.grad.isfinite().all()
        assert tensor.grad.any()


@pytest.mark.parametrize("locality", sorted(LOCALITY))
@pytest.mark.parametrize("normalizer", sorted(NORMALIZERS))
def test_gradients_of_soft_attention_by_finite_differences(locality, normalizer):
    attention = build("general", locality, normalizer)
    previous = normal(9, B, N, R).softmax(-1)
    leaves = [normal(seed, B, *shape).requires_grad_() for seed, shape in enumerate([(N, DQ), (R, DK), (R, 2)])]

    def context(queries, keys, values):
        return attend(attention, queries, keys, values, some_mask(3, B, R), previous).context

    assert torch.autograd.gradcheck(context, leaves, fast_mode=True)


@settings(max_examples=40, deadline=None)
@given(
    names=st.sampled_from(EVERY_COMBINATION),
    held=st.sampled_from([torch.nan, torch.inf, -torch.inf, 1e30, -5.0]),
    images=st.integers(1, 3),
    regions=st.integers(1, 7),
    seed=st.integers(0, 2**20),
)
def test_a_key_masked_for_every_query_is_inert_forward_and_backward(names, held, images, regions, seed):
    attention, mask = build(*names), some_mask(seed, images, regions)
    queries, keys, values = (
        normal(seed + i, images, *s) for i, s in enumerate([(N, DQ), (regions, DK), (regions, DV)])
    )
    previous = (normal(seed, images, N, regions).softmax(-1) * mask.unsqueeze(1)) + 1e-3 * mask.unsqueeze(1)
    gradients, found = [], []
    for filled in (0.5, held):
        leaves = [queries.clone()] + [each.masked_fill(~mask.unsqueeze(-1), filled) for each in (keys, values)]
        attended = attend(attention, *(leaf.requires_grad_() for leaf in leaves), mask, previous)
        found.append((attended.context, attended.weights))
        gradients.append(torch.autograd.grad(attended.context.sin().sum(), leaves, allow_unused=True))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(*gradients, strict=True):
        assert (one is None) == (other is None)
        torch.testing.assert_close(one, other)
    for gradient in gradients[1][1:]:
        assert gradient is None or (gradient[~mask] == 0).all()


@settings(max_examples=40, deadline=None)
@given(
    score=st.sampled_from(sorted(SCORES)),
    normalizer=st.sampled_from(sorted(NORMALIZERS)),
    regions=st.integers(1, 7),
    seed=st.integers(0, 2**20),
)
def test_masked_is_absent_and_regions_have_no_order(score, normalizer, regions, seed):
    attention, mask = build(score, normalizer=normalizer), some_mask(seed, 1, regions)
    queries, keys, values = (normal(seed + i, 1, *s) for i, s in enumerate([(N, DQ), (regions, DK), (regions, DV)]))
    attended = attend(attention, queries, keys, values, mask)
    alone = attend(attention, queries, keys[mask].unsqueeze(0), values[mask].unsqueeze(0))
    torch.testing.assert_close(attended.context, alone.context)
    torch.testing.assert_close(attended.weights[..., mask[0]], alone.weights)
    order = torch.randperm(regions, generator=torch.Generator().manual_seed(seed))
    permuted = attend(attention, queries, keys[:, order], values[:, order], mask[:, order])
    torch.testing.assert_close(permuted.context, attended.context)
    torch.testing.assert_close(permuted.weights, attended.weights[..., order])


@pytest.mark.parametrize("normalizer", sorted(NORMALIZERS))
@pytest.mark.parametrize("locality", sorted(LOCALITY))
def test_a_mask_for_each_query_is_one_attention_for_each_query(normalizer, locality):
    attention = build(normalizer=normalizer, locality=locality)
    queries, keys, values = normal(1, B, N, DQ), normal(2, B, R, DK), normal(3, B, R, DV)
    mask, previous = some_mask(4, B, N, R), normal(5, B, N, R).softmax(-1)
    attended = attend(attention, queries, keys, values, mask, previous)
    for n in range(N):
        one = slice(n, n + 1)
        alone = attend(attention, queries[:, one], keys, values, mask[:, n], previous[:, one])
        torch.testing.assert_close(attended.context[:, one], alone.context)
        torch.testing.assert_close(attended.weights[:, one], alone.weights)


def test_a_key_masked_for_some_queries_is_inert_for_finite_values():
    attention, mask = build(), masks.causal_mask(N).expand(B, N, N)
    queries, keys, values = normal(1, B, N, DQ), normal(2, B, N, DK), normal(3, B, N, DV)
    before = attend(attention, queries, keys, values, mask)
    keys[:, 2], values[:, 2] = 1e30, -1e30
    after = attend(attention, queries, keys, values, mask)
    torch.testing.assert_close(after.context[:, :2], before.context[:, :2])


def test_an_additive_mask_is_read_as_a_boolean_one():
    attention, mask = build(), some_mask(4, B, R)
    inputs = normal(1, B, N, DQ), normal(2, B, R, DK), normal(3, B, R, DV)
    additive = torch.zeros(B, R).masked_fill(~mask, -torch.inf)
    assert attend(attention, *inputs, additive).context.equal(attend(attention, *inputs, mask).context)


@pytest.mark.parametrize("names", EVERY_COMBINATION[:: len(SELECTIONS) + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_number_type_gives_finite_contexts_in_its_own_type(names, dtype):
    attention, mask = build(*names).to(dtype), some_mask(4, B, R)
    queries, keys, values = (normal(i, B, *s, dtype=dtype) for i, s in enumerate([(N, DQ), (R, DK), (R, DV)]))
    keys[~mask] = torch.nan
    queries.requires_grad_()
    attended = attend(attention, queries, keys, values, mask, normal(5, B, N, R, dtype=dtype).softmax(-1))
    assert attended.context.dtype == dtype
    assert attended.weights.dtype == torch.float32
    assert attended.context.isfinite().all()
    assert (attended.weights.sum(-1) - 1).abs().max() < 1e-5
    if attended.context.requires_grad:
        attended.context.float().square().sum().backward()
        assert queries.grad is None or queries.grad.isfinite().all()


@pytest.mark.parametrize("normalizer", sorted(NORMALIZERS))
def test_matrix_form_has_rows_that_are_independent_of_each_other(normalizer):
    """Q 3×2, K 5×2, V 5×7 -> weights 3×5, output 3×7."""
    attention = Attention(query_width=2, key_width=2, score="scaled_dot", normalizer=normalizer).double()
    queries, keys, values = normal(1, 1, 3, 2), normal(2, 1, 5, 2), normal(3, 1, 5, 7)
    memory = attention.remember(keys, values)
    whole = attention(queries, memory)
    assert whole.weights.shape == (1, 3, 5)
    assert whole.context.shape == (1, 3, 7)
    for row in range(3):
        alone = attention(queries[:, row : row + 1], memory)
        torch.testing.assert_close(alone.context, whole.context[:, row : row + 1])


@pytest.mark.parametrize("score", sorted(SCORES))
def test_frozen_scores_never_learn_but_all_around_them_does(score):
    attention = build(score, "local_p", frozen_scores=True)
    queries, keys, values = (normal(i, B, *s).requires_grad_() for i, s in enumerate([(N, DQ), (R, DK), (R, DV)]))
    attend(attention, queries, keys, values).context.sin().sum().backward()
    assert all(parameter.grad is None for parameter in attention.score.parameters())
    for tensor in (queries, keys, values, *attention.locality.parameters()):
        assert tensor.grad.any()


def test_the_pieces_are_the_whole():
    attention = build("additive", "local_p", "entmax15")
    queries, memory = normal(1, B, N, DQ), attention.remember(normal(2, B, R, DK), mask=some_mask(3, B, R))
    scored = attention.scores(queries, memory)
    whole = attention(queries, memory)
    assert attention.normalizer(*scored).equal(whole.weights)
    assert attention.selection(attention.normalize(scored), memory.values).context.equal(whole.context)
    own = normal(4, B, N)
    for extended in (scored.with_own(own), scored._replace(mask=None, log_factor=None).with_own(own)):
        assert extended.scores.equal(torch.cat([scored.scores, own.unsqueeze(-1)], -1))
        weights = attention.normalize(extended)
        assert weights.shape == (B, N, R + 1)
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, N, dtype=torch.float64))
    extended = scored.with_own(own)
    assert extended.mask[..., :R].equal(scored.mask.expand(B, N, R))
    assert extended.mask[..., R].all()
    assert (extended.log_factor[..., R] == 0).all()


@pytest.mark.parametrize("selection", sorted(set(SELECTIONS) - {"soft"}))
def test_what_does_not_sum_to_one_is_never_drawn_from(selection):
    with pytest.raises(ConfigError, match=f"luong_unnormalized: expected soft selection, got {selection}: the weights"):
        build(locality="local_p", selection=selection, luong_unnormalized=True)
    with pytest.raises(ConfigError, match=f"dropout: expected 0 with selection {selection}, got 0.1: dropped weights"):
        build(selection=selection, dropout=0.1)


@pytest.mark.parametrize("locality", sorted(set(LOCALITY) - {"local_p"}))
def test_only_predicted_windows_have_a_gaussian_to_leave_unnormalized(locality):
    with pytest.raises(ConfigError, match="luong_unnormalized: expected locality local_p"):
        build(locality=locality, luong_unnormalized=True)


def test_finished_selections_are_taken_as_they_are():
    assert build(selection=Gumbel(0.5)).selection.temperature == 0.5
    assert build(selection=Mixed(0.25)).selection.probability == 0.25
    assert build(dropout=0.3).selection.dropout == 0.3


def test_public_calls_name_what_does_not_fit():
    attention, keys = build(), normal(1, B, R, DK)
    bad = torch.ones(B, N, R, dtype=torch.bool)
    bad[1, 2] = False
    with pytest.raises(ShapeError, match=r"mask: row \(1, 2\) allows no key"):
        attention.remember(keys, mask=bad)
    with pytest.raises(ShapeError, match=r"mask: expected \(B, N, R\) with B = 2, R = 5, got \(2, 3, 4\)"):
        attention.remember(keys, mask=bad[..., :4])
    with pytest.raises(ShapeError, match=r"values: expected \(B, R, Dv\) with B = 2, R = 5, got \(2, 4, 13\)"):
        attention.remember(keys, normal(2, B, 4, DV))
