"""Numbers that can be checked with pencil and paper, through every way the library has to attend."""

import math

import pytest
import torch

from captioning.attention import Attention, MultiHeadAttention, scaled_dot_product_attention, softmax


def by_function(query, keys, values):
    return scaled_dot_product_attention(query, keys, values)


def by_fused_kernels(query, keys, values):
    return scaled_dot_product_attention(query, keys, values, need_weights=False)


def by_named_parts(query, keys, values):
    attention = Attention(query_width=query.shape[-1], key_width=keys.shape[-1], score="scaled_dot")
    attended = attention(query.unsqueeze(0), attention.remember(keys.unsqueeze(0), values.unsqueeze(0)))
    return attended.context.squeeze(0), attended.weights.squeeze(0)


def by_one_head(query, keys, values):
    """Keys and queries as wide as the values, or the other way round: what is filled up adds nothing."""
    width, value_width = query.shape[-1], values.shape[-1]
    whole = max(width, value_width)
    attention = MultiHeadAttention(query_width=whole, heads=1, bias=False).double()
    for layer in (attention.query_map, attention.key_map, attention.value_map, attention.output_map):
        torch.nn.init.eye_(layer.weight)
    wider = (torch.nn.functional.pad(each, (0, whole - each.shape[-1])) for each in (query, keys, values))
    query, keys, values = wider
    output, weights = attention((whole / width) ** 0.5 * query, keys, values)
    return output[..., :value_width], weights.squeeze(0)


WAYS = pytest.mark.parametrize("attend", [by_function, by_fused_kernels, by_named_parts, by_one_head])


def tensor(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def with_scores(attend, scores, values):
    """One query and keys of width 1 whose products are these scores."""
    context, weights = attend(torch.ones(1, 1).double(), tensor(scores).unsqueeze(-1), tensor(values))
    return context[0], None if weights is None else weights[0]


@WAYS
def test_a_quarter_and_three_quarters(attend):
    scores = [math.log(0.25), math.log(0.75)]
    context, weights = with_scores(attend, scores, [[2.0], [6.0]])
    torch.testing.assert_close(context, tensor([5.0]))
    assert weights is None or weights.tolist() == pytest.approx([0.25, 0.75])
    context, _ = with_scores(attend, scores, [[2.0, 0.0], [0.0, 4.0]])
    torch.testing.assert_close(context, tensor([0.5, 3.0]))


@WAYS
def test_scores_two_one_zero(attend):
    values = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    context, weights = with_scores(attend, [2.0, 1.0, 0.0], values)
    expected = tensor([0.66524096, 0.24472847, 0.09003057])
    torch.testing.assert_close(softmax(tensor([2.0, 1.0, 0.0])), expected, atol=5e-9, rtol=0)
    if weights is not None:
        torch.testing.assert_close(weights, expected, atol=5e-9, rtol=0)
    torch.testing.assert_close(context, tensor([0.75527153, 0.33475904]), atol=5e-9, rtol=0)
    # Inside the triangle: solving for the corners' shares gives back the weights, all of them positive.
    corners = torch.cat([tensor(values).T, torch.ones(1, 3).double()])
    shares = torch.linalg.solve(corners, torch.cat([context, torch.ones(1).double()]))
    assert (shares > 0).all()
    torch.testing.assert_close(shares, expected, atol=5e-9, rtol=0)


@WAYS
def test_matrix_form_whose_rows_do_not_know_each_other(attend):
    torch.manual_seed(0)
    Q, K, V = (torch.randn(rows, columns).double() for rows, columns in ((3, 2), (5, 2), (5, 7)))
    output, weights = attend(Q, K, V)
    assert output.shape == (3, 7)
    assert weights is None or weights.shape == (3, 5)
    for row in range(3):
        alone, _ = attend(Q[row : row + 1], K, V)
        torch.testing.assert_close(alone[0], output[row])
    others = Q.clone()
    others[1:] *= -3
    torch.testing.assert_close(attend(others, K, V)[0][0], output[0])


@pytest.mark.parametrize("kind", ["named parts", "heads"])
def test_two_images_through_one_fixed_model_differ(kind):
    """Weights are computed anew for every input while the parameters stay."""
    torch.manual_seed(0)
    query, images = torch.randn(1, 1, 7).expand(2, -1, -1), torch.randn(2, 5, 11)
    if kind == "heads":
        model = MultiHeadAttention(query_width=7, key_width=11, heads=3, width=39)
        attend = lambda: model(query, images)[1]  # noqa: E731
    else:
        model = Attention(query_width=7, key_width=11, width=13)
        attend = lambda: model(query, model.remember(images)).weights  # noqa: E731
    before = [parameter.clone() for parameter in model.parameters()]
    weights = attend()
    assert (weights[0] - weights[1]).abs().max() > 0.01
    assert torch.equal(attend(), weights)
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
