"""Multi-head attention: several attentions side by side, each in its own projection of queries, keys and values.

    head_h = Attention(Q W_q^h, K W_k^h, V W_v^h),   output = [head_1; ...; head_Hn] W_o

Vaswani et al. (2017), section 3.2.2. Self-attention takes all three from one input, cross-attention the queries from
the caption and the rest from the image. Keys and values are projected once and handed back and forth as `HeadMemory`:
of an image for all captions, beams and steps (`remember`, `attend`), of a caption's own words so far (`extend`).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from captioning.attention.dot_product import attend, attention_weights, boolean_mask, zero_blind, zero_unseen
from captioning.attention.masks import causal_mask, check_available
from captioning.attention.positions import RelativePositions
from captioning.errors import ConfigError, ShapeError
from captioning.tensors.precision import linear
from captioning.tensors.shapes import check_shape


@dataclass(frozen=True)
class HeadMemory:
    """What is attended, projected for each head; leading axes are free, the first one counts images."""

    keys: Tensor
    """(..., Hn, R, W) with W the width of a head."""
    values: Tensor
    """(..., Hn, R, W)."""
    mask: Tensor | None = None
    """(..., 1, 1, R) boolean, True = may attend; None: every key exists."""

    def first(self, rows: int) -> "HeadMemory":
        """Of the first `rows` images, as many as still have words to read."""
        return self.select(slice(rows))

    def select(self, images: Tensor | slice) -> "HeadMemory":
        """Of these images only; gradients flow."""
        mask = None if self.mask is None else self.mask[images]
        return HeadMemory(self.keys[images], self.values[images], mask)

    def reorder(self, parents: Tensor) -> "HeadMemory":
        """Of hypotheses (B, K, Hn, R, W): row k of image b becomes the old row parents[b, k]; parents (B, K')."""
        images = torch.arange(len(parents), device=parents.device).unsqueeze(1)
        mask = None if self.mask is None else self.mask[images, parents]
        return HeadMemory(self.keys[images, parents], self.values[images, parents], mask)


class MultiHeadAttention(nn.Module):
    """`heads` attentions of width W = width / heads each, concatenated and mapped to `output_width`.

    `key_width` defaults to `query_width`, `value_width` to `key_width`, `width` (all heads together) and `output_width`
    to `query_width`. `dropout` drops weights after normalizing, in training only; rows then need not sum to one.
    `relative` adds positions inside self-attention; it takes all weights in the open, never the fused kernels.
    """

    def __init__(
        self,
        *,
        query_width: int,
        heads: int,
        key_width: int | None = None,
        value_width: int | None = None,
        width: int | None = None,
        output_width: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        relative: RelativePositions | None = None,
    ) -> None:
        super().__init__()
        width, key_width = width or query_width, key_width or query_width
        _check_settings(width, heads, dropout, relative)
        self.heads, self.dropout, self.relative = heads, dropout, relative
        self.query_map = nn.Linear(query_width, width, bias=bias)
        self.key_map = nn.Linear(key_width, width, bias=bias)
        self.value_map = nn.Linear(value_width or key_width, width, bias=bias)
        self.output_map = nn.Linear(width, output_width or query_width, bias=bias)
        for layer in (self.query_map, self.key_map, self.value_map, self.output_map):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(
        self,
        queries: Tensor,
        keys: Tensor | None = None,
        values: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        need_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """Queries (..., N, Dq) over keys (..., R, Dk) and values (..., R, Dv) -> (..., N, output width), weights.

        Values default to the keys, and keys to the queries: self-attention. The mask broadcasts to (..., N, R), is the
        same for every head, boolean with True = may attend, or additive with 0 and -inf. Weights are (..., Hn, N, R),
        or None without `need_weights`, when torch's fused kernels compute the same output.

        Keys hidden from every query are set to zero first, so that NaN or inf in them is inert forward and backward;
        in self-attention the same row is zeroed as a query too. Raises ShapeError for sizes that do not fit and
        names the first query without any key.
        """
        keys = queries if keys is None else keys
        values = keys if values is None else values
        self._check_places(keys is queries)
        if mask is not None:
            mask = boolean_mask(mask, (*queries.shape[:-1], keys.shape[-2]))
            check_available(mask)
            queries, keys, values = _without_padding(queries, keys, values, mask)
        return self.attend(queries, self._project(keys, values), mask, need_weights=need_weights)

    def remember(self, keys: Tensor, values: Tensor | None = None, mask: Tensor | None = None) -> HeadMemory:
        """Project keys (..., R, Dk) and values (..., R, Dv), by default the keys, once; mask (..., R).

        Rows that the mask leaves out are set to zero first. Raises ShapeError for a mask that leaves no key at all.
        """
        self._check_places(False)
        values = keys if values is None else values
        if mask is None:
            return self._project(keys, values)
        mask = boolean_mask(mask.unsqueeze(-2), (*keys.shape[:-2], 1, keys.shape[-2]))
        check_available(mask.squeeze(-2))
        seen = self._project(zero_unseen(keys, mask), zero_unseen(values, mask))
        return HeadMemory(seen.keys, seen.values, mask.expand(*keys.shape[:-2], 1, -1).unsqueeze(-3))

    def attend(
        self, queries: Tensor, memory: HeadMemory, mask: Tensor | None = None, *, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Queries (B', ..., N, Dq) over the first B' images of a memory -> (B', ..., N, output width), weights.

        For cross-attention N counts captions × positions, or beams: they share the image's memory. `mask` is boolean,
        broadcasts to (..., N, R) and narrows the memory's own; a query that the two leave no key takes nothing from it.
        """
        check_shape("queries", queries, "... N D", D=self.query_map.in_features)
        memory = memory.first(len(queries)) if queries.dim() > 2 else memory
        _check_memory(queries, memory)
        visible = memory.mask
        if mask is not None:
            mask = torch.atleast_2d(mask).unsqueeze(-3)
            visible = mask if visible is None else mask & visible
        projected = self._split(linear(self.query_map, queries))
        context, weights = self._attend(projected, memory, visible, need_weights=need_weights)
        return linear(self.output_map, context.transpose(-3, -2).flatten(-2)), weights

    def extend(
        self, inputs: Tensor, cache: HeadMemory | None = None, *, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None, HeadMemory]:
        """Causal self-attention of n more positions (..., n, Dq) over themselves and what the cache holds.

        Returns (..., n, output width), the weights (..., Hn, n, R) over all R positions so far (None unless asked
        for), and the cache with the new ones. Word by word it gives what `forward` gives for the whole sequence with
        `causal_mask`. The cache of B images with K hypotheses, (B, K, Hn, R, W), is re-ordered by `reorder`.
        """
        new = self._project(inputs, inputs)
        if cache is not None:
            new = HeadMemory(torch.cat([cache.keys, new.keys], -2), torch.cat([cache.values, new.values], -2))
        count, seen = inputs.shape[-2], new.keys.shape[-2]
        mask = None if count == 1 else causal_mask(seen, device=inputs.device)[seen - count :]
        output, weights = self.attend(inputs, new, mask, need_weights=need_weights)
        return output, weights, new

    def _check_places(self, self_attention: bool) -> None:
        """Between caption and image there is no distance."""
        if self.relative is not None and not self_attention:
            raise ConfigError(
                "relative positions: expected self-attention, got keys of their own; make cross-attention without them"
            )

    def _project(self, keys: Tensor, values: Tensor) -> HeadMemory:
        sizes = check_shape("keys", keys, "... R D", D=self.key_map.in_features)
        check_shape("values", values, "... R D", D=self.value_map.in_features, R=sizes["R"])
        return HeadMemory(self._split(linear(self.key_map, keys)), self._split(linear(self.value_map, values)))

    def _split(self, projected: Tensor) -> Tensor:
        """(..., R, Hn W) -> (..., Hn, R, W)."""
        return projected.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def _attend(
        self, query: Tensor, memory: HeadMemory, mask: Tensor | None, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """All heads at once, (..., Hn, N, W) -> (..., Hn, N, W) and the weights."""
        dropout = self.dropout if self.training else 0.0
        if self.relative is None:
            return attend(query, memory.keys, memory.values, mask, need_weights=need_weights, dropout=dropout)
        if mask is not None:
            query = zero_blind(query, mask)
        bias = self.relative.scores(query, memory.keys.shape[-2])
        weights = F.dropout(attention_weights(query, memory.keys, mask, bias), dropout)
        context = weights.to(memory.values.dtype) @ memory.values + self.relative.context(weights).to(query.dtype)
        return context, weights if need_weights else None


def _without_padding(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All three with zeros for keys that no query sees; what is one tensor stays one."""
    seen = zero_unseen(keys, mask)
    return seen if queries is keys else queries, seen, seen if values is keys else zero_unseen(values, mask)


def _check_memory(queries: Tensor, memory: HeadMemory) -> None:
    """The memory's leading axes are those of the queries, or 1."""
    wanted, found = queries.shape[:-2], memory.keys.shape[:-3]
    if len(wanted) != len(found) or any(own not in (1, size) for own, size in zip(found, wanted, strict=True)):
        raise ShapeError(
            f"queries: expected the memory's leading axes {tuple(found)}, got {tuple(queries.shape)}; "
            "captions and beams of an image go into the axis of the queries (of a cache: beside the images)"
        )


def _check_settings(width: int, heads: int, dropout: float, relative: RelativePositions | None) -> None:
    if heads < 1 or width % heads:
        raise ConfigError(f"heads: expected a number that divides the width {width}, got {heads}")
    if not 0 <= dropout < 1:
        raise ConfigError(f"attention dropout: expected a number from 0 to below 1, got {dropout}")
    if relative is not None and relative.width != width // heads:
        raise ConfigError(f"relative positions: expected a head's width {width // heads}, got {relative.width}")
