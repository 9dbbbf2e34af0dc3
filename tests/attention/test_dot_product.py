"""Scaled dot-product attention: against torch, against a loop, and against what a mask promises; in both paths."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from captioning.attention import masks, scaled_dot_product_attention
from captioning.attention.dot_product import attend, boolean_mask
from captioning.errors import ShapeError

B, HN, N, R, E, DV = 2, 3, 5, 7, 11, 13
PATHS = pytest.mark.parametrize("need_weights", [True, False], ids=["open", "fused"])
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def draw(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def parts(*leading, dtype=torch.float64):
    return draw(*leading, N, E, dtype=dtype), draw(*leading, R, E, dtype=dtype), draw(*leading, R, DV, dtype=dtype)


def some_mask(*shape):
    mask = torch.rand(*shape) > 0.4
    mask[..., 0] = True
    return mask


def outputs_and_gradients(function, leaves):
    output = function(*leaves)
    return [output, *torch.autograd.grad(output.double().sin().sum(), leaves)]


@PATHS
@pytest.mark.parametrize("dtype", sorted(TOLERANCES, key=str))
@pytest.mark.parametrize("shape", [None, (N, R), (B, 1, 1, R), (B, HN, N, R)])
def test_equals_torch(need_weights, dtype, shape):
    leaves, mask = parts(B, HN, dtype=dtype), None if shape is None else some_mask(*shape)
    ours = outputs_and_gradients(
        lambda *each: scaled_dot_product_attention(*each, mask, need_weights=need_weights)[0], leaves
    )
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    theirs = outputs_and_gradients(lambda *each: F.scaled_dot_product_attention(*each, mask), exact)
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.double(), other, atol=TOLERANCES[dtype], rtol=TOLERANCES[dtype])


@PATHS
@pytest.mark.parametrize("leading", [(), (B,), (B, HN), (2, 3, 5)])
def test_leading_axes_are_free(need_weights, leading):
    query, key, value = parts(*leading)
    mask = some_mask(*leading, N, R)
    output, weights = scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights)
    assert output.shape == (*leading, N, DV)
    flat = [part.reshape(-1, *part.shape[-2:]) for part in (query, key, value, mask, output)]
    for q, k, v, m, o in zip(*flat, strict=True):
        for row in range(N):
            scores = torch.stack([q[row] @ k[j] / E**0.5 for j in range(R) if m[row, j]])
            torch.testing.assert_close(o[row], scores.softmax(0) @ v[m[row]])
    assert (weights is not None) == need_weights
    if need_weights:
        torch.testing.assert_close(weights @ value, output)


@PATHS
def test_leading_axes_broadcast(need_weights):
    query, key, value = draw(B, 1, N, E), draw(HN, R, E), draw(R, DV)
    mask = some_mask(B, 1, 1, R)
    output, _ = scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights)
    spread = [part.expand(B, HN, *part.shape[-2:]) for part in (query, key, value)]
    torch.testing.assert_close(output, F.scaled_dot_product_attention(*spread, mask))


@PATHS
@pytest.mark.parametrize("shape", [(R,), (1, R), (N, 1), (N, R), (B, 1, R)])
def test_masks_broadcast_and_additive_ones_mean_the_same(need_weights, shape):
    leaves, mask = parts(B), some_mask(*shape)
    whole, _ = scaled_dot_product_attention(*leaves, mask.expand(B, N, R), need_weights=need_weights)
    additive = torch.zeros(shape).masked_fill(~mask, -torch.inf)
    for given_mask in (mask, additive):
        assert boolean_mask(given_mask, (B, N, R)).shape[-1] == R
        torch.testing.assert_close(
            scaled_dot_product_attention(*leaves, given_mask, need_weights=need_weights)[0], whole
        )


@PATHS
def test_causal_is_attention_over_the_kept_keys_alone(need_weights):
    query, key, value = draw(B, R, E), draw(B, R, E), draw(B, R, DV)
    causal = masks.causal_mask(R)
    output, _ = scaled_dot_product_attention(query, key, value, causal, need_weights=need_weights)
    for row in range(R):
        alone, _ = scaled_dot_product_attention(
            query[:, row : row + 1], key[:, : row + 1], value[:, : row + 1], need_weights=need_weights
        )
        torch.testing.assert_close(output[:, row : row + 1], alone)
    unmasked, weights = scaled_dot_product_attention(query, key, value)
    zeroed = (weights * causal) @ value
    assert not torch.allclose(zeroed[:, :-1], output[:, :-1], atol=1e-3)
    torch.testing.assert_close(zeroed[:, -1], unmasked[:, -1])


@PATHS
@pytest.mark.parametrize("held", [torch.nan, torch.inf, -torch.inf])
def test_padding_is_inert_forward_and_backward_whatever_it_holds(need_weights, held):
    query, key, value = (part.detach() for part in parts(B))
    lengths = torch.tensor([3, 5])
    mask = masks.padding_mask(lengths, R).unsqueeze(1) & some_mask(B, N, R)
    for part in (key, value):
        part.masked_fill_(~masks.padding_mask(lengths, R).unsqueeze(-1), held)
    leaves = [part.requires_grad_() for part in (query, key, value)]
    found = outputs_and_gradients(
        lambda *each: scaled_dot_product_attention(*each, mask, need_weights=need_weights)[0], leaves
    )
    for image, length in enumerate(lengths.tolist()):
        kept = [part[image, : None if part is query else length].detach().requires_grad_() for part in leaves]
        alone = outputs_and_gradients(
            lambda *each, seen=mask[image, :, :length]: F.scaled_dot_product_attention(*each, seen), kept
        )
        for one, other in zip(found, alone, strict=True):
            torch.testing.assert_close(one[image, : len(other)], other)
            assert (one[image, len(other) :] == 0).all()


@PATHS
@pytest.mark.parametrize("held", [1e30, -7.0])
def test_a_key_masked_for_some_queries_is_inert_for_those(need_weights, held):
    query, key, value = (part.detach() for part in parts())
    mask = torch.ones(N, R, dtype=torch.bool)
    mask[:-1, -1] = False
    before, _ = scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights)
    key[-1], value[-1] = held, held
    after, _ = scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights)
    assert torch.equal(before[:-1], after[:-1])
    assert not torch.equal(before[-1], after[-1])


@PATHS
def test_a_query_without_keys_is_refused_by_name_or_gives_zeros(need_weights):
    leaves, mask = parts(B), some_mask(B, N, R)
    mask[1, 2] = False
    with pytest.raises(ShapeError, match=r"mask: row \(1, 2\) allows no key"):
        scaled_dot_product_attention(*leaves, mask, need_weights=need_weights)
    with torch.no_grad():
        leaves[0][1, 2] = torch.nan  # What it asks can't matter, either.
    output, weights = scaled_dot_product_attention(*leaves, mask, need_weights=need_weights, check=False)
    gradients = torch.autograd.grad(output.sin().sum(), leaves)
    assert (output[1, 2] == 0).all()
    assert (gradients[0][1, 2] == 0).all()
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert weights is None or (weights[1, 2] == 0).all()
    kept = torch.arange(N) != 2
    others = (leaves[0][1, kept], leaves[1][1], leaves[2][1], mask[1, kept])
    torch.testing.assert_close(output[1, kept], F.scaled_dot_product_attention(*others))


@PATHS
def test_no_keys_at_all(need_weights):
    query, key, value = draw(B, N, E), torch.empty(B, 0, E).double(), torch.empty(B, 0, DV).double()
    with pytest.raises(ShapeError, match="expected at least one key to attend to, got R = 0"):
        scaled_dot_product_attention(query, key, value, need_weights=need_weights)
    output, _ = scaled_dot_product_attention(query, key, value, need_weights=need_weights, check=False)
    assert torch.equal(output, torch.zeros(B, N, DV).double())


@PATHS
def test_gradients_by_finite_differences(need_weights):
    mask = some_mask(N, R)
    assert torch.autograd.gradcheck(
        lambda *each: scaled_dot_product_attention(*each, mask, need_weights=need_weights)[0], parts(B)
    )


@PATHS
def test_half_precision_neither_overflows_nor_rounds_its_scores(need_weights):
    """q · k = 4 · 200 · 200 = 160,000 is beyond float16; scores 300 apart by 1/1024 are one number in bfloat16."""
    query = torch.full((1, 4), 200.0, dtype=torch.float16)
    key = torch.stack([torch.full((4,), 200.0), torch.full((4,), -200.0)]).half()
    value = torch.tensor([[3.0], [5.0]]).half()
    output, _ = scaled_dot_product_attention(query, key, value, need_weights=need_weights)
    assert output.tolist() == [[3.0]]
    query, key = torch.tensor([[256.0, 0.5]]), torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    value = torch.tensor([[0.0], [1.0]])
    half = (part.bfloat16() for part in (query, key, value))
    output, _ = scaled_dot_product_attention(*half, need_weights=need_weights)
    torch.testing.assert_close(output.float(), torch.sigmoid(torch.tensor([[-(0.5**0.5)]])), atol=2e-3, rtol=0)


@PATHS
def test_dropout_keeps_the_expected_output_and_drops_after_normalizing(need_weights):
    query, key, value = (torch.zeros(1, 1, E), torch.zeros(1, 1000, E), torch.ones(1, 1000, 1))
    output, weights = attend(query, key, value, need_weights=need_weights, dropout=0.25)
    # 1000 weights of 0.001, kept with probability 3/4 and then 4/3 as large: standard deviation 0.018 about 1.
    assert 1e-5 < abs(output.item() - 1) < 0.1
    if need_weights:
        assert weights.unique().tolist() == pytest.approx([0.0, 0.001 / 0.75])
        torch.testing.assert_close(output, weights @ value)


def test_errors_name_what_does_not_fit():
    query, key, value = parts(B)
    with pytest.raises(ShapeError, match=r"key: expected \(..., R, E\) with E = 11, got \(2, 7, 10\)"):
        scaled_dot_product_attention(query, key[..., :-1], value)
    with pytest.raises(ShapeError, match=r"value: expected \(..., R, Dv\) with R = 7, got \(2, 6, 13\)"):
        scaled_dot_product_attention(query, key, value[:, :-1])
    with pytest.raises(ShapeError, match=r"leading axes that broadcast, got \(2,\), \(2,\), \(3,\)"):
        scaled_dot_product_attention(query, key, draw(3, R, DV))
    with pytest.raises(ShapeError, match=r"broadcasts to \(..., N, R\) = \(2, 5, 7\), got \(2, 7\)"):
        scaled_dot_product_attention(query, key, value, some_mask(B, R))
    with pytest.raises(ShapeError, match=r"= \(2, 5, 7\), got \(3, 2, 5, 7\)"):
        scaled_dot_product_attention(query, key, value, some_mask(3, B, N, R))
    with pytest.raises(ShapeError, match=r"expected .*-inf"):
        scaled_dot_product_attention(query, key, value, torch.ones(N, R, dtype=torch.long))
    with pytest.raises(ShapeError, match="expected only 0"):
        scaled_dot_product_attention(query, key, value, torch.ones(N, R))


@st.composite
def problems(draw_from):
    """Sizes, number type and a mask that leaves each query a key -> query, key, value, mask."""
    images, queries, keys, width, value_width = (draw_from(st.integers(1, 6)) for _ in range(5))
    dtype = draw_from(st.sampled_from(sorted(TOLERANCES, key=str)))
    generator = torch.Generator().manual_seed(draw_from(st.integers(0, 10**6)))
    sizes = [(images, queries, width), (images, keys, width), (images, keys, value_width)]
    tensors = [torch.randn(*size, generator=generator).to(dtype) for size in sizes]
    mask = torch.rand(images, queries, keys, generator=generator) < draw_from(st.sampled_from([0.2, 0.5, 1.0]))
    mask |= torch.arange(keys) == torch.randint(keys, (images, queries, 1), generator=generator)
    return *tensors, mask


@settings(max_examples=60, deadline=None)
@given(problems())
def test_properties(problem):
    query, key, value, mask = problem
    tolerance = {"atol": TOLERANCES[value.dtype], "rtol": TOLERANCES[value.dtype]}
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert (weights[~mask] == 0).all()
    fused, none = scaled_dot_product_attention(query, key, value, mask, need_weights=False)
    assert none is None
    torch.testing.assert_close(fused, output, **tolerance)
    for found in (output, fused):
        for image, row in mask.any(-1).nonzero().tolist():
            hull = value[image, mask[image, row]]
            slack = TOLERANCES[value.dtype] * (1 + hull.abs().amax())
            assert (found[image, row] >= hull.amin(0) - slack).all()
            assert (found[image, row] <= hull.amax(0) + slack).all()


@settings(max_examples=40, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_order_of_keys_and_masked_keys_do_not_matter(problem, random):
    query, key, value, mask = problem
    tolerance = {"atol": TOLERANCES[value.dtype], "rtol": TOLERANCES[value.dtype]}
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    order = torch.tensor(random.sample(range(key.shape[1]), key.shape[1]))
    shuffled = scaled_dot_product_attention(query, key[:, order], value[:, order], mask[..., order])
    torch.testing.assert_close(shuffled[0], output, **tolerance)
    torch.testing.assert_close(shuffled[1], weights[..., order], **tolerance)
    image, row = random.randrange(len(query)), random.randrange(query.shape[1])
    kept = mask[image, row]
    alone, _ = scaled_dot_product_attention(query[image, row : row + 1], key[image, kept], value[image, kept])
    torch.testing.assert_close(alone[0], output[image, row], **tolerance)
