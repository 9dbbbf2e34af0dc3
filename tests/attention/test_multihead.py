"""Multi-head attention: against torch's module, against plain attention, and step by step against the whole."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from captioning.attention import MultiHeadAttention, RelativePositions, masks, scaled_dot_product_attention
from captioning.errors import ConfigError, ShapeError
from tests.attention.multihead_cases import (
    DK,
    DQ,
    DV,
    HN,
    KINDS,
    PATHS,
    B,
    N,
    R,
    W,
    assert_same_gradients,
    causal_self,
    cross,
    draw,
    shaken,
    some_mask,
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def per_head(attention, queries, keys, values, mask=None):
    """Head by head, from the formula."""
    maps = (attention.query_map, attention.key_map, attention.value_map)
    heads = []
    for head in range(attention.heads):
        own = slice(head * W, (head + 1) * W)
        q, k, v = (
            each @ layer.weight[own].T + (0 if layer.bias is None else layer.bias[own])
            for each, layer in zip((queries, keys, values), maps, strict=True)
        )
        scores = q @ k.transpose(-2, -1) / W**0.5
        heads.append((scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1) @ v)
    return attention.output_map(torch.cat(heads, -1))


@PATHS
@pytest.mark.parametrize("bias", [True, False])
def test_equals_its_formula_head_by_head(need_weights, bias):
    attention = cross(bias=bias)
    queries, keys, values, mask = draw(B, N, DQ), draw(B, R, DK), draw(B, R, DV), some_mask(B, N, R)
    output, weights = attention(queries, keys, values, mask, need_weights=need_weights)
    torch.testing.assert_close(output, per_head(attention, queries, keys, values, mask))
    assert (None if weights is None else weights.shape) == ((B, HN, N, R) if need_weights else None)


def twins(key_width, value_width):
    """torch's module, whose width must be that of its queries, and ours with the same weights."""
    theirs = nn.MultiheadAttention(HN * W, HN, kdim=key_width, vdim=value_width, batch_first=True).double()
    nn.init.normal_(theirs.in_proj_bias)
    nn.init.normal_(theirs.out_proj.bias)
    ours = MultiHeadAttention(query_width=HN * W, heads=HN, key_width=key_width, value_width=value_width).double()
    same = theirs.in_proj_weight is not None
    separate = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    weights = theirs.in_proj_weight.chunk(3) if same else separate
    with torch.no_grad():
        for layer, weight, bias in zip(
            (ours.query_map, ours.key_map, ours.value_map), weights, theirs.in_proj_bias.chunk(3), strict=True
        ):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        ours.output_map.load_state_dict(theirs.out_proj.state_dict())
    return theirs, ours


@PATHS
def test_self_attention_equals_torchs_module(need_weights):
    theirs, ours = twins(None, None)
    x, padding = draw(B, N, HN * W), masks.padding_mask(torch.tensor([4, 6]), N)
    causal = masks.causal_mask(N)
    output, weights = ours(x, mask=causal & padding.unsqueeze(1), need_weights=need_weights)
    expected = theirs(x, x, x, key_padding_mask=~padding, attn_mask=~causal, average_attn_weights=False)
    seen = padding.unsqueeze(-1)  # Padding as a query: theirs computes with what it holds, ours with zeros.
    torch.testing.assert_close(output * seen, expected[0] * seen)
    assert_same_gradients(output * seen, expected[0] * seen, [x])
    if need_weights:
        torch.testing.assert_close(weights.transpose(1, 2)[padding], expected[1].transpose(1, 2)[padding])


@PATHS
def test_cross_attention_equals_torchs_module_and_its_gradients(need_weights):
    theirs, ours = twins(DK, DV)
    leaves, mask = [draw(B, N, HN * W), draw(B, R, DK), draw(B, R, DV)], some_mask(B, N, R)
    output, weights = ours(*leaves, mask, need_weights=need_weights)
    each_head = ~mask.repeat_interleave(HN, 0)
    expected = theirs(*leaves, attn_mask=each_head, average_attn_weights=False)
    torch.testing.assert_close(output, expected[0])
    assert_same_gradients(output, expected[0], leaves)
    if need_weights:
        torch.testing.assert_close(weights, expected[1])
    own = [layer.weight for layer in (ours.query_map, ours.key_map, ours.value_map, ours.output_map)]
    twin = [theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight, theirs.out_proj.weight]
    assert_same_gradients(output, expected[0], own, twin)


@PATHS
def test_one_head_with_identity_projections_is_plain_attention(need_weights):
    attention = MultiHeadAttention(query_width=DQ, heads=1).double()
    for layer in (attention.query_map, attention.key_map, attention.value_map, attention.output_map):
        nn.init.eye_(layer.weight)
    queries, keys, values, mask = draw(B, N, DQ), draw(B, R, DQ), draw(B, R, DQ), some_mask(B, N, R)
    output, weights = attention(queries, keys, values, mask, need_weights=need_weights)
    expected, plain = scaled_dot_product_attention(queries, keys, values, mask)
    torch.testing.assert_close(output, expected)
    if need_weights:
        torch.testing.assert_close(weights.squeeze(1), plain)


def test_heads_differ_and_their_mean_is_something_else():
    """Copies of one head, each a fifth of the output: that is what the mean of equal copies would be."""
    attention, (queries, keys, values) = cross(), (draw(B, N, DQ), draw(B, R, DK), draw(B, R, DV))
    output, weights = attention(queries, keys, values)
    assert all(not torch.allclose(weights[:, 0], weights[:, head], atol=1e-2) for head in range(1, HN))
    first = [layer.weight[:W] for layer in (attention.query_map, attention.key_map, attention.value_map)]
    first_head = scaled_dot_product_attention(queries @ first[0].T, keys @ first[1].T, values @ first[2].T)[0]
    copies = cross(bias=False)
    with torch.no_grad():
        copies.output_map.weight.copy_(attention.output_map.weight)
        for layer, weight in zip((copies.query_map, copies.key_map, copies.value_map), first, strict=True):
            layer.weight.copy_(weight.repeat(HN, 1))
    mean = first_head @ copies.output_map.weight.unflatten(1, (HN, W)).sum(1).T
    torch.testing.assert_close(copies(queries, keys, values)[0], mean)
    assert not torch.allclose(output, mean, atol=1e-1)


@PATHS
@pytest.mark.parametrize("held", [torch.nan, torch.inf])
def test_padding_is_inert_in_cross_attention(need_weights, held):
    attention, queries, lengths = cross(), draw(B, N, DQ), [4, 9]
    seen = masks.padding_mask(torch.tensor(lengths), R)
    keys, values = (draw(B, R, width).detach().masked_fill(~seen.unsqueeze(-1), held) for width in (DK, DV))
    leaves = [keys.requires_grad_(), values.requires_grad_()]
    remembered = attention.attend(queries, attention.remember(*leaves, seen), need_weights=need_weights)[0]
    direct = attention(queries, *leaves, seen.unsqueeze(1), need_weights=need_weights)[0]
    for output in (remembered, direct):
        gradients = torch.autograd.grad(output.sin().sum(), [*leaves, queries, *attention.parameters()])
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert all((gradient[~seen] == 0).all() for gradient in gradients[:2])
        for image, length in enumerate(lengths):
            kept = [leaf[image, :length].unsqueeze(0) for leaf in leaves]
            torch.testing.assert_close(output[image : image + 1], attention(queries[image : image + 1], *kept)[0])


@PATHS
@KINDS
def test_padding_is_inert_in_self_attention_as_key_and_as_query(need_weights, reach):
    attention, words = causal_self(reach), masks.padding_mask(torch.tensor([4, 6]), N)
    x = draw(B, N, DQ).detach().masked_fill(~words.unsqueeze(-1), torch.nan).requires_grad_()
    for same in ([], [x], [x, x]):
        output, _ = attention(x, *same, mask=masks.causal_mask(N) & words.unsqueeze(1), need_weights=need_weights)
        gradients = torch.autograd.grad(output[words].sin().sum(), [x, *attention.parameters()])
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert (gradients[0][~words] == 0).all()
        torch.testing.assert_close(output[0, :4], attention(x[0, :4], mask=masks.causal_mask(4))[0])


@PATHS
@KINDS
def test_dropout_only_in_training(need_weights, reach):
    attention, x = causal_self(reach, dropout=0.5), draw(B, N, DQ)
    plain = causal_self(reach)
    plain.load_state_dict(attention.state_dict())
    expected, weights = plain(x)
    attention.eval()
    torch.testing.assert_close(attention(x, need_weights=need_weights)[0], expected)
    attention.train()
    output, dropped = attention(x, need_weights=need_weights)
    assert not torch.allclose(output, expected)
    if need_weights:  # After normalizing: what is kept is exactly twice as large, and rows need not sum to one.
        kept = dropped > 0
        assert 0.3 < kept.double().mean() < 0.7
        torch.testing.assert_close(dropped[kept], 2 * weights[kept])


@PATHS
@KINDS
def test_gradients_by_finite_differences(need_weights, reach):
    attention = causal_self(reach)
    mask = masks.causal_mask(3)
    assert torch.autograd.gradcheck(lambda x: attention(x, mask=mask, need_weights=need_weights)[0], (draw(B, 3, DQ),))


@KINDS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_agrees_with_double(reach, dtype):
    attention, x, mask = causal_self(reach), draw(B, N, DQ).detach(), masks.causal_mask(N)
    exact, _ = attention(x, mask=mask)
    for need_weights in (True, False):
        half, weights = attention.to(dtype)(x.to(dtype), mask=mask, need_weights=need_weights)
        assert half.dtype == dtype
        assert (half.double() - exact).abs().max() < 20 * torch.finfo(dtype).eps * exact.abs().max()
        assert weights is None or weights.dtype == torch.float32
        attention.double()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_regions_are_a_set(images, regions, heads, width, seed):
    torch.manual_seed(seed)
    attention = shaken(MultiHeadAttention(query_width=heads * width, heads=heads, key_width=3))
    queries, keys = torch.randn(images, 5, heads * width).double(), torch.randn(images, regions, 3).double()
    order, mask = torch.randperm(regions), some_mask(images, 5, regions)
    output, weights = attention(queries, keys, mask=mask)
    shuffled = attention(queries, keys[:, order], mask=mask[..., order])
    torch.testing.assert_close(shuffled[0], output)
    torch.testing.assert_close(shuffled[1], weights[..., order])
    assert (weights.transpose(1, 2)[~mask.unsqueeze(2).expand(-1, -1, heads, -1)] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(images, heads, 5).double())


def test_errors_name_what_does_not_fit():
    attention, queries, keys, values = cross(), draw(B, N, DQ), draw(B, R, DK), draw(B, R, DV)
    with pytest.raises(ConfigError, match="heads: expected a number that divides the width 13, got 5"):
        MultiHeadAttention(query_width=DQ, heads=5)
    with pytest.raises(ConfigError, match="heads: expected a number that divides the width 13, got 0"):
        MultiHeadAttention(query_width=DQ, heads=0)
    with pytest.raises(ConfigError, match="dropout: expected a number from 0 to below 1, got 1"):
        MultiHeadAttention(query_width=DQ, heads=1, dropout=1.0)
    with pytest.raises(ConfigError, match="expected a head's width 13, got 5"):
        MultiHeadAttention(query_width=DQ, heads=1, relative=RelativePositions(5, reach=2))
    with pytest.raises(ShapeError, match=r"queries: expected \(..., N, D\) with D = 13, got \(2, 7, 12\)"):
        attention(queries[..., 1:], keys, values)
    with pytest.raises(ShapeError, match=r"keys: expected \(..., R, D\) with D = 17, got \(2, 11, 19\)"):
        attention(queries, values, keys)
    with pytest.raises(ShapeError, match=r"values: expected \(..., R, D\) with D = 19, R = 11, got \(2, 10, 19\)"):
        attention(queries, keys, values[:, 1:])
    with pytest.raises(ShapeError, match=r"mask: row \(1, 3\) allows no key"):
        attention(queries, keys, values, torch.ones(B, N, R).bool() & (torch.arange(B * N).view(B, N, 1) != N + 3))
    with pytest.raises(ShapeError, match=r"mask: row \(1,\) allows no key"):
        attention.remember(keys, values, masks.padding_mask(torch.tensor([3, 0]), R))
    with pytest.raises(ShapeError, match=r"leading axes \(2,\), got \(3, 7, 13\)"):
        attention.attend(draw(3, N, DQ), attention.remember(keys, values))
    relative = causal_self(2)
    for call in (lambda: relative(draw(B, N, DQ), draw(B, R, DQ)), lambda: relative.remember(draw(B, R, DQ))):
        with pytest.raises(ConfigError, match="relative positions: expected self-attention"):
            call()
