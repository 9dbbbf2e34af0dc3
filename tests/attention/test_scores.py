"""Scores against loops, against each other, and their variance."""

import sys

import pytest
import torch
from torch import nn

from captioning.attention.additive import LARGEST, AdditiveKeys, additive, concat
from captioning.attention.scores import (
    SCORES,
    AdditiveScore,
    ConcatScore,
    DotScore,
    GeneralScore,
    ScaledDotScore,
    dot,
    general,
    scaled_dot,
)
from captioning.errors import ConfigError
from captioning.tensors.recurrence import SharedTensor

B, N, R, DQ, DK, A = 2, 3, 5, 7, 11, 13


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_additive_equals_a_loop():
    queries, keys, vector = draw(B, N, A), draw(B, R, A), draw(A)
    expected = torch.stack(
        [
            torch.stack(
                [torch.stack([vector @ torch.tanh(queries[b, i] + keys[b, j]) for j in range(R)]) for i in range(N)]
            )
            for b in range(B)
        ]
    )
    torch.testing.assert_close(additive(queries, keys, vector), expected)


def test_concat_equals_a_loop_over_joined_vectors():
    queries, keys, matrix, vector = draw(B, N, DQ), draw(B, R, DK), draw(A, DQ + DK), draw(A)
    scores = concat(queries, keys, matrix, vector)
    for b in range(B):
        for i in range(N):
            for j in range(R):
                joined = torch.cat([queries[b, i], keys[b, j]])
                torch.testing.assert_close(scores[b, i, j], vector @ torch.tanh(matrix @ joined))


def test_concat_is_additive_without_a_bias_and_with_both_matrices_as_one():
    score, other = ConcatScore(DQ, DK, A).double(), AdditiveScore(DQ, DK, A).double()
    assert score.key_map.bias is None
    other.load_state_dict({**score.state_dict(), "key_map.bias": torch.zeros(A)})
    queries, keys = draw(B, N, DQ), draw(B, R, DK)
    matrix = torch.cat([score.query_map.weight, score.key_map.weight], 1)
    expected = concat(queries, keys, matrix, score.vector)
    torch.testing.assert_close(score(queries, score.remember(keys)), expected)
    torch.testing.assert_close(other(queries, other.remember(keys)), expected)
    assert matrix.abs().max() <= (DQ + DK) ** -0.5


def test_general_and_the_dots_equal_loops():
    queries, keys, matrix = draw(B, N, DQ), draw(B, R, DK), draw(DQ, DK)
    same = draw(B, R, DQ)
    found = general(queries, keys, matrix), dot(queries, same), scaled_dot(queries, same)
    for b in range(B):
        for i in range(N):
            for j in range(R):
                query, inner = queries[b, i], queries[b, i] @ same[b, j]
                torch.testing.assert_close(found[0][b, i, j], query @ matrix @ keys[b, j])
                torch.testing.assert_close(found[1][b, i, j], inner)
                torch.testing.assert_close(found[2][b, i, j], inner / DQ**0.5)
    score = GeneralScore(DQ, DK).double()
    torch.testing.assert_close(score(queries, score.remember(keys)), general(queries, keys, score.key_map.weight))


@pytest.mark.parametrize("name", sorted(SCORES))
def test_a_key_of_the_query_s_own_is_scored_like_a_shared_one(name):
    score = SCORES[name](DQ, DK, A).double()
    queries, keys = draw(1, N, DQ), draw(1, N, DK)
    memory = score.remember(keys)
    projected = memory.project_query(queries)
    assert projected.shape == (1, N, score.width)
    own = score.compare_own(projected, score.project_keys(keys))
    torch.testing.assert_close(own, score(queries, memory).diagonal(dim1=1, dim2=2))
    assert torch.autograd.gradcheck(score.compare_own, (draw(B, N, score.width), draw(B, N, score.width)))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_additive_gradients_by_finite_differences_and_by_autograd(activation):
    score = AdditiveScore(DQ, DK, A, activation=activation).double()
    queries, keys = draw(B, N, DQ), draw(B, R, DK)

    def fast(queries, keys):
        return score(queries, score.remember(keys))

    def slow(queries, keys):
        hidden = score.query_map(queries).unsqueeze(2) + score.key_map(keys).unsqueeze(1)
        return getattr(torch, activation)(hidden) @ score.vector

    leaves = [queries, keys, *score.parameters()]
    for one, other in zip(
        torch.autograd.grad(fast(queries, keys).sin().sum(), leaves),
        torch.autograd.grad(slow(queries, keys).sin().sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    assert torch.autograd.gradcheck(fast, (queries, keys))


@pytest.mark.parametrize("size", [0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exponentials_are_exact_near_zero_far_out_and_beyond_their_range(size, dtype):
    torch.manual_seed(1)
    queries = (size * torch.randn(B, N, A, dtype=dtype)).requires_grad_()
    keys = (size * torch.randn(B, R, A, dtype=dtype)).requires_grad_()
    vector = torch.randn(A, dtype=dtype, requires_grad=True)
    assert (size > LARGEST) == bool(keys.abs().amax() > LARGEST)
    scores = AdditiveKeys(keys, vector).compare_additively(queries)
    expected = torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1)) @ vector
    tolerance = {"atol": 5e-6, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 1e-13, "rtol": 1e-12}
    torch.testing.assert_close(scores, expected, **tolerance)
    leaves = [queries, keys, vector]
    for one, other in zip(
        torch.autograd.grad(scores.sin().sum(), leaves),
        torch.autograd.grad(expected.sin().sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, other, **tolerance)
    with torch.no_grad():
        torch.testing.assert_close(AdditiveKeys(keys, vector).compare_additively(queries), expected, **tolerance)


def test_many_images_are_compared_in_chunks(monkeypatch):
    monkeypatch.setattr(sys.modules["captioning.attention.additive"], "CHUNK", 2 * N * R * A)
    queries, keys, vector = draw(5, N, A), draw(7, R, A), draw(A)
    shared = AdditiveKeys(keys, vector)
    scores, expected = shared.compare_additively(queries), additive(queries, keys[:5], vector)
    torch.testing.assert_close(scores, expected)
    leaves = [queries, keys, vector]
    plain = torch.tanh(queries.unsqueeze(2) + keys[:5].unsqueeze(1)) @ vector
    for one, other in zip(
        torch.autograd.grad(scores.sin().sum(), leaves),
        torch.autograd.grad(plain.sin().sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        torch.testing.assert_close(
            shared.select(torch.tensor([3, 0])).compare_additively(queries[[3, 0]]), expected[[3, 0]]
        )


@pytest.mark.parametrize("name", sorted(SCORES))
def test_every_score_has_right_gradients_through_the_shared_keys(name):
    score = SCORES[name](DQ, DK, A).double()
    assert torch.autograd.gradcheck(lambda q, k: score(q, score.remember(k)), (draw(B, N, DQ), draw(B, R, DK)))


@pytest.mark.parametrize("name", sorted(SCORES))
def test_fewer_queries_than_images_read_the_first_images(name):
    score = SCORES[name](DQ, DK, A).double()
    queries, keys = draw(B, N, DQ), draw(B, R, DK)
    whole, first = score(queries, score.remember(keys)), score(queries[:1], score.remember(keys))
    torch.testing.assert_close(first, whole[:1])


def test_general_equals_dot_when_its_matrix_is_the_identity():
    score = GeneralScore(DQ, DQ).double()
    nn.init.eye_(score.key_map.weight)
    queries, keys = draw(B, N, DQ), draw(B, R, DQ)
    torch.testing.assert_close(score(queries, score.remember(keys)), dot(queries, keys))


def test_scaled_dot_is_dot_of_queries_divided_by_the_root_of_the_width():
    plain, scaled = DotScore(DQ, DQ, None), ScaledDotScore(DQ, DQ, None)
    queries, keys = draw(B, N, DQ), draw(B, R, DQ)
    expected = plain(queries / DQ**0.5, plain.remember(keys))
    torch.testing.assert_close(scaled(queries, scaled.remember(keys)), expected)


def test_variance_of_dot_grows_with_the_width_and_of_scaled_dot_does_not():
    generator = torch.Generator().manual_seed(0)
    for width in (16, 256):
        queries, keys = torch.randn(2, 1, 4000, width, generator=generator).unbind()
        keys = SharedTensor(keys)
        plain = DotScore(width, width, None).compare(queries[:, :200], keys)
        scaled = ScaledDotScore(width, width, None).compare(queries[:, :200], keys)
        # 800,000 products of which 4,000 + 200 vectors are independent: a tenth is far outside their spread.
        assert plain.var().item() == pytest.approx(width, rel=0.1)
        assert scaled.var().item() == pytest.approx(1, rel=0.1)


def test_unscaled_scores_saturate_softmax_and_shrink_its_gradient():
    generator = torch.Generator().manual_seed(0)
    width = 1024
    queries, keys = torch.randn(50, width, generator=generator), torch.randn(20, width, generator=generator)
    slopes = []
    for scores in (queries @ keys.T, queries @ keys.T / width**0.5):
        weights = scores.softmax(-1)
        slopes.append((weights * (1 - weights)).sum(-1).mean())  # the trace of the softmax's Jacobian
    assert slopes[0] < 0.2 * slopes[1]


def test_dot_without_a_width_wants_equal_widths():
    with pytest.raises(ConfigError, match="expected queries and keys of one width, got 7 and 11"):
        DotScore(DQ, DK, None)


def test_unknown_activation_is_named():
    with pytest.raises(ConfigError, match="expected one of tanh, relu, got 'gelu'"):
        AdditiveScore(DQ, DK, A, activation="gelu")
