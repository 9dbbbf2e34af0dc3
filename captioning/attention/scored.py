"""What stands between the moves: scores with all that the normalizer must know, and one more key for each query."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from captioning.tensors.recurrence import SharedTensor


class Scored(NamedTuple):
    """Scores after masking and locality; `normalizer(*scored)` makes weights of them."""

    scores: Tensor
    """(B, N, R)."""
    mask: Tensor | None = None
    """(B, 1, R) or (B, N, R) boolean, True = may attend; None: every key."""
    log_factor: Tensor | None = None
    """(B, N, R) logarithm of what the weights are multiplied by before they are renormalized; None: nothing."""

    def with_own(self, own: Tensor) -> "Scored":
        """One more key for each query, always available, with score `own` (B, N) -> everything with R + 1 keys."""
        own = own.unsqueeze(-1)
        mask, factor = self.mask, self.log_factor
        if mask is not None:
            mask = torch.cat([mask.expand_as(self.scores), mask.new_ones(own.shape)], -1)
        if factor is not None:
            factor = torch.cat([factor, factor.new_zeros(own.shape)], -1)
        return Scored(torch.cat([self.scores, own.to(self.scores.dtype)], -1), mask, factor)


class Values(Protocol):
    """What a selection selects from: a SharedTensor (B, R, Dv), or ValuesWithOwn."""

    @property
    def dtype(self) -> torch.dtype:
        """The values' number type."""

    def mix(self, weights: Tensor) -> Tensor:
        """(B', N, R) weights -> (B', N, Dv): Σ_r weights_r value_r."""

    def pick(self, index: Tensor) -> Tensor:
        """(B', N) -> (B', N, Dv): value_index."""


@dataclass(frozen=True)
class ValuesWithOwn:
    """The shared values, and as the last one a value of each query's own: to go with `Scored.with_own`."""

    shared: SharedTensor
    """(B, R, Dv)."""
    own: Tensor
    """(B', N, Dv)."""

    @property
    def dtype(self) -> torch.dtype:
        """The shared values' number type."""
        return self.shared.dtype

    def mix(self, weights: Tensor) -> Tensor:
        """(B', N, R + 1) weights -> (B', N, Dv)."""
        return self.shared.mix(weights[..., :-1]) + weights[..., -1:] * self.own.to(self.dtype)

    def pick(self, index: Tensor) -> Tensor:
        """(B', N), R = the own value -> (B', N, Dv)."""
        last = self.shared.running.tensor.shape[1]
        shared = self.shared.pick(index.clamp(max=last - 1))
        return torch.where((index == last).unsqueeze(-1), self.own.to(self.dtype), shared)
