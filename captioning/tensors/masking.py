"""Masks from lengths, and sums and means over what a mask keeps."""

import torch
from torch import Tensor


def length_mask(lengths: Tensor, maximum: int) -> Tensor:
    """(...,) lengths -> (..., maximum) boolean: True at positions before the length."""
    return torch.arange(maximum, device=lengths.device) < lengths.unsqueeze(-1)


def masked_mean(values: Tensor, mask: Tensor | None, dim: int) -> Tensor:
    """Mean of `values` along `dim` where `mask` is True; 0 where nothing is kept. A masked NaN does not count."""
    if mask is None:
        return values.mean(dim)
    kept = values.masked_fill(~mask, 0).sum(dim)
    return kept / mask.expand_as(values).sum(dim).clamp(min=1)
