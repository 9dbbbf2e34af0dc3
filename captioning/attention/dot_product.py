"""Scaled dot-product attention as one function: with weights in the open, or by torch's fused kernels without them.

    weights = softmax(Q Kᵀ / √E),   output = weights V          (Vaswani et al., 2017, equation 1)

`scaled_dot_product_attention` checks its input and makes padding inert; `attend` is the inner path that trusts it.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from captioning.attention.masks import as_boolean, check_available
from captioning.attention.normalizers import softmax
from captioning.attention.scores import scaled_dot
from captioning.errors import ShapeError
from captioning.tensors.precision import at_least_float32
from captioning.tensors.shapes import check_shape


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    need_weights: bool = True,
    check: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """w_ij = exp(q_i · k_j / √E) / Σ_available exp(q_i · k / √E), o_i = Σ_j w_ij v_j -> outputs o and weights w.

    query (..., N, E), key (..., R, E), value (..., R, Dv), with leading axes that broadcast; mask broadcasts to
    (..., N, R), boolean with True = may attend, or additive with 0 and -inf. Returns (..., N, Dv) in the values'
    number type and (..., N, R) in at least float32; without `need_weights` the second is None and torch's fused kernels
    compute the same output.

    A key that the mask hides from every query is set to zero first: NaN or inf in it is inert, forward and backward. A
    key hidden from some queries only is inert as long as its products are finite.

    Raises ShapeError for sizes that do not fit and names the first query without any key. With `check=False`, which
    spares a GPU the wait for that answer, such a query gets zero weights, zero output and zero gradients instead.
    """
    leading = _check_sizes(query, key, value)
    if mask is not None:
        mask = boolean_mask(mask, (*leading, query.shape[-2], key.shape[-2]))
        key, value = zero_unseen(key, mask), zero_unseen(value, mask)
    if check:
        _check_keys(key, mask)
    return attend(query, key, value, mask, need_weights=need_weights)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    need_weights: bool = True,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor | None]:
    """The same without checks: a boolean mask of at least two axes, keys without NaN; weights drop out at this rate.

    A query without any key gets zero weights, zero output and zero gradients.
    """
    if mask is not None:
        query = zero_blind(query, mask)
    if not need_weights:
        return _fused(query, key, value, mask, dropout=dropout), None
    weights = F.dropout(attention_weights(query, key, mask), dropout)
    return weights.to(value.dtype) @ value, weights


def attention_weights(query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | float = 0.0) -> Tensor:
    """softmax(Q Kᵀ / √E + bias) over the available keys -> (..., N, R), products and all in at least float32."""
    scores = scaled_dot(at_least_float32(query), at_least_float32(key))
    return softmax(scores + bias, mask)


def boolean_mask(mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A mask that broadcasts to `shape` (..., N, R) as a boolean one whose last axis is R; an additive one converted.

    Raises ShapeError if it does not broadcast to that shape.
    """
    mask = torch.atleast_2d(as_boolean(mask))
    if mask.dim() > len(shape) or any(
        own not in (1, full) for own, full in zip(reversed(mask.shape), reversed(shape), strict=False)
    ):
        raise ShapeError(
            f"mask: expected a shape that broadcasts to (..., N, R) = {shape}, got {tuple(mask.shape)}; "
            "give a mask of keys an axis for queries: mask.unsqueeze(-2)"
        )
    return mask.expand(*mask.shape[:-1], shape[-1])


def zero_unseen(keys: Tensor, mask: Tensor) -> Tensor:
    """Keys or values (..., R, D) with zeros where mask (..., N, R) hides them from every query."""
    return keys.masked_fill(~mask.any(-2).unsqueeze(-1), 0)


def zero_blind(query: Tensor, mask: Tensor) -> Tensor:
    """Queries (..., N, D) with zeros where mask (..., N, R) leaves them no key: whatever they held is inert."""
    return query.masked_fill(~mask.any(-1, keepdim=True), 0)


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, dropout: float) -> Tensor:
    """By torch's kernels. Queries without keys see all of them, lest a kernel divides by zero, and are then zeroed."""
    if mask is None:
        return _by_torch(query, key, value, None, dropout)
    blind = ~mask.any(-1, keepdim=True)
    return _by_torch(query, key, value, mask | blind, dropout).masked_fill(blind, 0)


def _by_torch(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """On four axes, which the fast kernels want."""
    parts = (query, key, value) if mask is None else (query, key, value, mask)
    leading = torch.broadcast_shapes(*(part.shape[:-2] for part in parts))
    query, key, value = (_four_axes(part, leading) for part in (query, key, value))
    mask = None if mask is None else _four_axes(mask, leading)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
    return output.reshape(*leading, *output.shape[-2:])


def _four_axes(tensor: Tensor, leading: torch.Size) -> Tensor:
    """(..., X, Y) with leading axes broadcast to `leading` -> (b, h, X, Y); no copy where there are two of them."""
    last = leading[-1] if leading else 1
    rows = math.prod(leading[:-1])
    return tensor.expand(*leading, *tensor.shape[-2:]).reshape(rows, last, *tensor.shape[-2:])


def _check_sizes(query: Tensor, key: Tensor, value: Tensor) -> torch.Size:
    """The leading axes, broadcast; ShapeError for sizes that do not fit."""
    sizes = check_shape("query", query, "... N E")
    sizes = check_shape("key", key, "... R E", E=sizes["E"])
    check_shape("value", value, "... R Dv", R=sizes["R"])
    shapes = [tensor.shape[:-2] for tensor in (query, key, value)]
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError:
        found = ", ".join(str(tuple(shape)) for shape in shapes)
        raise ShapeError(
            f"query, key, value: expected leading axes that broadcast, got {found}; give shared ones size 1"
        ) from None


def _check_keys(key: Tensor, mask: Tensor | None) -> None:
    if not key.shape[-2]:
        raise ShapeError(f"key: expected at least one key to attend to, got R = 0 in {tuple(key.shape)}")
    if mask is not None:
        check_available(mask)
