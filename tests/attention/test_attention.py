"""Masks, normalizers and selection together: the contract's promises, and its worked examples as they stand."""

import pytest
import torch

from captioning.attention import NORMALIZERS, SCORES, Attention, softmax
from captioning.errors import ConfigError, ShapeError

B, N, R, DQ, DK, DV, A = 2, 3, 5, 7, 11, 13, 17


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


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
    with pytest.raises(ConfigError, match=r"expected one of entmax15, softmax, sparsemax, uniform, got .relu"):
        Attention(query_width=DQ, key_width=DK, normalizer="relu")
    with pytest.raises(ConfigError, match="temperature: expected a number > 0, got 0"):
        Attention(query_width=DQ, key_width=DK, temperature=0)
