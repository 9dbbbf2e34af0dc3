"""A control, no attention: at every word the decoder is shown the image's mean region."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from captioning.attention import Attended
from captioning.tensors.masking import masked_mean


@dataclass(frozen=True)
class MeanMemory:
    """What there is to see of B images."""

    mean: Tensor
    """(B, 1, D)."""
    weights: Tensor
    """(B, 1, R) one over the number of regions that exist."""

    def select(self, images: Tensor) -> "MeanMemory":
        """Of these images only."""
        return MeanMemory(self.mean[images], self.weights[images])


class MeanRegion(nn.Module):
    """Stands where an Attention does: ẑ = Σ_i a_i / R for every query, computed once an image."""

    needs_previous = False

    def remember(self, keys: Tensor, mask: Tensor | None = None, grid: tuple[int, int] | None = None) -> MeanMemory:
        """Of regions (B, R, D) that exist by mask (B, R)."""
        exists = keys.new_ones(keys.shape[:2], dtype=torch.bool) if mask is None else mask
        mean = masked_mean(keys, exists.unsqueeze(-1), 1).unsqueeze(1)
        weights = exists.float() / exists.sum(-1, keepdim=True)
        return MeanMemory(mean, weights.unsqueeze(1))

    def forward(
        self, queries: Tensor, memory: MeanMemory, previous: Tensor | None = None, **chosen: Tensor
    ) -> Attended:
        """Queries (B', N, Dq), of which only the number matters -> context (B', N, D), weights (B', N, R)."""
        images, count = queries.shape[:2]
        mean, weights = (tensor[:images].expand(-1, count, -1) for tensor in (memory.mean, memory.weights))
        return Attended(mean, weights)
