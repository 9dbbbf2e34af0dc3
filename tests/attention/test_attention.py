"""Masks, normalizers and selection together: the contract's promises, and its worked examples as they stand."""

import pytest
import torch

from captioning.attention import NORMALIZERS, SCORES, Attention, masks, softmax
from captioning.attention.selection import Soft
from captioning.errors import ConfigError, ShapeError
from captioning.tensors.recurrence import SharedTensor

B, N, R, DQ, DK, DV, A = 2, 3, 5, 7, 11, 13, 17


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def attend(weights, values):
    return Soft()(torch.tensor([weights]).unsqueeze(0), SharedTensor(torch.tensor([values]))).context[0, 0]


def test_worked_examples():
    torch.testing.assert_close(attend([0.25, 0.75], [[2.0], [6.0]]), torch.tensor([5.0]))
    torch.testing.assert_close(attend([0.25, 0.75], [[2.0, 0.0], [0.0, 4.0]]), torch.tensor([0.5, 3.0]))
    weights = softmax(torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64))
    expected = torch.tensor([0.66524096, 0.24472847, 0.09003057], dtype=torch.float64)
    torch.testing.assert_close(weights, expected, atol=5e-9, rtol=0)
    context = weights @ torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    expected = torch.tensor([0.75527153, 0.33475904], dtype=torch.float64)
    torch.testing.assert_close(context, expected, atol=5e-9, rtol=0)


def test_weights_are_computed_anew_for_every_image():
    attention = Attention(query_width=DQ, key_width=DK, width=A).double()
    queries = draw(1, N, DQ).expand(B, -1, -1)
    weights = attention(queries, attention.remember(draw(B, R, DK))).weights
    assert not torch.allclose(weights[0], weights[1])


@pytest.mark.parametrize("score", sorted(SCORES))
@pytest.mark.parametrize("normalizer", sorted(NORMALIZERS))
def test_weights_lie_on_the_simplex_and_context_in_the_hull(score, normalizer):
    attention = Attention(query_width=DQ, key_width=DK, width=A, score=score, normalizer=normalizer).double()
    keys, values, queries = draw(B, R, DK), draw(B, R, DV), draw(B, N, DQ)
    attended = attention(queries, attention.remember(keys, values))
    assert (attended.weights >= 0).all()
    torch.testing.assert_close(attended.weights.sum(-1), torch.ones(B, N, dtype=torch.float64))
    torch.testing.assert_close(attended.context, attended.weights @ values)
    low, high = values.amin(1, keepdim=True), values.amax(1, keepdim=True)
    assert ((attended.context >= low) & (attended.context <= high)).all()


@pytest.mark.parametrize("score", sorted(SCORES))
@pytest.mark.parametrize("held", [torch.nan, torch.inf, 1e30, -5.0])
def test_masked_keys_are_absent_forward_and_backward(score, held):
    attention = Attention(query_width=DQ, key_width=DK, width=A, score=score).double()
    mask = torch.tensor([[True, False, True, True, False], [True, True, True, False, False]])
    queries, keys = draw(B, N, DQ), torch.randn(B, R, DK, dtype=torch.float64)
    keys[~mask] = held
    keys.requires_grad_()
    attended = attention(queries, attention.remember(keys, mask=mask))
    attended.context.sin().sum().backward()
    assert (attended.weights.transpose(1, 2)[~mask] == 0).all()
    assert (keys.grad[~mask] == 0).all()
    assert queries.grad.isfinite().all()
    for image in range(B):
        kept = keys[image : image + 1, mask[image]].detach()
        alone = attention(queries[image : image + 1], attention.remember(kept))
        torch.testing.assert_close(attended.context[image], alone.context[0])
        torch.testing.assert_close(attended.weights[image][:, mask[image]], alone.weights[0])


def test_zeroing_after_softmax_is_not_masking():
    scores = torch.randn(N, R, dtype=torch.float64)
    mask = masks.causal_mask(R)[:N]
    zeroed = scores.softmax(-1) * mask
    masked = softmax(scores, mask)
    assert not torch.allclose(zeroed, masked)
    torch.testing.assert_close(zeroed / zeroed.sum(-1, keepdim=True), masked)


def test_softmax_is_blind_to_a_shift_and_heats_up():
    scores = torch.randn(N, R, dtype=torch.float64)
    torch.testing.assert_close(softmax(scores + 3), softmax(scores))
    torch.testing.assert_close(softmax(scores, temperature=2.0), (scores / 2).softmax(-1))
    assert torch.autograd.gradcheck(softmax, (draw(N, R), masks.causal_mask(R)[:N]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_masks_exactly(dtype):
    scores = torch.tensor([1, 2, -20000, 5], dtype=dtype)
    weights = softmax(scores, torch.tensor([True, True, False, False]))
    assert (weights[2:] == 0).all()
    torch.testing.assert_close(weights[:2].float(), torch.tensor([0.2689, 0.7311]), atol=2e-3, rtol=0)


def test_a_row_without_keys_is_zero_in_the_fast_path_with_finite_gradients():
    scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    weights = softmax(scores, torch.tensor([[True, True], [False, False]]))
    torch.testing.assert_close(weights, torch.tensor([[0.2689, 0.7311], [0, 0]]), atol=1e-4, rtol=0)
    weights.square().sum().backward()
    assert (scores.grad[1] == 0).all()
    alone = torch.tensor([1.0, 2.0], requires_grad=True)
    softmax(alone).square().sum().backward()
    torch.testing.assert_close(scores.grad[0], alone.grad)


def test_weights_are_normalized_over_cells_not_over_the_batch():
    scores = torch.randn(3, 4)
    torch.testing.assert_close(softmax(scores).sum(-1), torch.ones(3))
    torch.testing.assert_close(softmax(scores)[0], softmax(scores[:1])[0])


def test_public_calls_refuse_bad_masks_by_name():
    attention = Attention(query_width=DQ, key_width=DK, width=A).double()
    keys = draw(B, R, DK)
    with pytest.raises(ShapeError, match=r"mask: row \(1,\) allows no key"):
        attention.remember(keys, mask=torch.tensor([[True] * R, [False] * R]))
    with pytest.raises(ShapeError, match=r"expected only 0 \(allowed\) and -inf .* with mask.bool\(\)"):
        attention.remember(keys, mask=torch.ones(B, R))
    with pytest.raises(ShapeError, match="expected a boolean mask"):
        attention.remember(keys, mask=torch.ones(B, R, dtype=torch.long))
    with pytest.raises(ShapeError, match=r"mask: expected \(B, R\) with B = 2, R = 5, got \(2, 4\)"):
        attention.remember(keys, mask=torch.ones(B, 4, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"keys: expected \(B, R, D\), got \(5, 11\)"):
        attention.remember(keys[0])


def test_unknown_parts_are_named_with_the_nearest():
    with pytest.raises(ConfigError, match="got 'aditive'; did you mean 'additive'"):
        Attention(query_width=DQ, key_width=DK, score="aditive")
    with pytest.raises(ConfigError, match="expected one of entmax15, softmax, sparsemax, uniform, got .relu"):
        Attention(query_width=DQ, key_width=DK, normalizer="relu")
    with pytest.raises(ConfigError, match="temperature: expected a number > 0, got 0"):
        Attention(query_width=DQ, key_width=DK, temperature=0)


def test_mask_builders():
    assert masks.padding_mask(torch.tensor([2, 0]), 3).tolist() == [[True, True, False], [False] * 3]
    assert masks.causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True] * 3]
    additive = torch.tensor([[0.0, -torch.inf]])
    assert masks.from_additive(additive).tolist() == [[True, False]]
    with pytest.raises(ShapeError, match="expected only 0"):
        masks.from_additive(torch.tensor([1.0]))
    with pytest.raises(ShapeError, match="at most R = 3, got 4"):
        masks.padding_mask(torch.tensor([4]), 3)
