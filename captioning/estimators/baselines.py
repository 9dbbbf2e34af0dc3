"""Baselines: what a return is compared with. They change an estimate's variance, never its expectation.

A baseline may read whatever does not depend on the choice that it is subtracted for: earlier batches, other samples of
the same caption, the state before the choice. Each is used first and updated afterwards, so that none ever holds the
return it is compared with. Running values are buffers: checkpoints keep them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from captioning.errors import ConfigError, ShapeError

DECAY = 0.9
"""Of running means: b ← 0.9 b + 0.1 G (Xu et al., 2015, section 4.1)."""


@dataclass(frozen=True)
class Evidence:
    """What a baseline may look at besides the returns."""

    states: Tensor | None = None
    """(..., T, H) the decoder's state before each choice."""
    soft_returns: Tensor | None = None
    """(..., T) the returns of the same captions read with the expected context."""


class Baseline(nn.Module):
    """Returns (..., T) of steps that exist -> what each is compared with, broadcastable to (..., T)."""

    def forward(self, returns: Tensor, exists: Tensor, evidence: Evidence = Evidence()) -> Tensor:
        raise NotImplementedError

    def update(self, returns: Tensor, exists: Tensor) -> None:
        """Learn from returns that have been used; nothing to do for most."""

    def loss(self, returns: Tensor, exists: Tensor, evidence: Evidence) -> Tensor:
        """() what is to be minimized to learn the baseline; 0 where it has no parameters."""
        return returns.new_zeros(())


class NoBaseline(Baseline):
    """b = 0: plain REINFORCE."""

    def forward(self, returns: Tensor, exists: Tensor, evidence: Evidence = Evidence()) -> Tensor:
        return returns.new_zeros(())


class MovingAverage(Baseline):
    """b ← 0.9 b + 0.1 · the mean return of a caption's first step (the whole caption's), as in the paper."""

    value: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("value", torch.zeros(()))

    def forward(self, returns: Tensor, exists: Tensor, evidence: Evidence = Evidence()) -> Tensor:
        return self.value.clone()  # `update` changes it in place

    @torch.no_grad()
    def update(self, returns: Tensor, exists: Tensor) -> None:
        first = exists[..., 0]
        if first.any():
            self.value.lerp_(returns[..., 0][first].mean().to(self.value.dtype), 1 - DECAY)


class PerStep(Baseline):
    """A running mean for each step, which suits rewards to go: they shrink along a caption."""

    values: Tensor

    def __init__(self, longest: int = 128) -> None:
        super().__init__()
        self.register_buffer("values", torch.zeros(longest))

    def forward(self, returns: Tensor, exists: Tensor, evidence: Evidence = Evidence()) -> Tensor:
        return self.values[: self._steps(returns)].clone()

    @torch.no_grad()
    def update(self, returns: Tensor, exists: Tensor) -> None:
        steps = self._steps(returns)
        kept = returns.masked_fill(~exists, 0).flatten(0, -2).sum(0)
        count = exists.flatten(0, -2).sum(0)
        moved = self.values[:steps].lerp((kept / count.clamp(min=1)).to(self.values.dtype), 1 - DECAY)
        self.values[:steps] = torch.where(count > 0, moved, self.values[:steps])

    def _steps(self, returns: Tensor) -> int:
        steps = returns.shape[-1]
        if steps > len(self.values):
            raise ShapeError(f"per_step baseline: expected at most {len(self.values)} steps, got {steps}")
        return steps


class LeaveOneOut(Baseline):
    """The mean return of the other samples of the same caption, axis −2 (Kool, van Hoof and Welling, 2019)."""

    def forward(self, returns: Tensor, exists: Tensor, evidence: Evidence = Evidence()) -> Tensor:
        return leave_one_out(returns)


class Learned(Baseline):
    """b_t = m_t + w · h_{t-1} + c of the state before the choice, which holds nothing drawn at or after step t.

    m_t is a running mean for each step, so that w need only learn how much more or less than others a state promises.
    """

    def __init__(self, state_width: int) -> None:
        super().__init__()
        self.mean = PerStep()
        self.readout = nn.Linear(state_width, 1)
        nn.init.zeros_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)

    def forward(self, returns: Tensor, exists: Tensor, evidence: Evidence = Evidence()) -> Tensor:
        if evidence.states is None:
            raise ShapeError("learned baseline: expected the decoder's states, got none")
        promised: Tensor = self.readout(evidence.states.detach().to(self.readout.weight.dtype)).squeeze(-1)
        return self.mean(returns, exists) + promised

    def update(self, returns: Tensor, exists: Tensor) -> None:
        self.mean.update(returns, exists)

    def loss(self, returns: Tensor, exists: Tensor, evidence: Evidence) -> Tensor:
        """Σ_t (b_t − G_t)² over the steps that exist."""
        return (self(returns, exists, evidence) - returns.detach())[exists].square().sum()


class SoftPass(Baseline):
    """The return of the same caption with the expected context instead of samples: the soft model's likelihood."""

    def forward(self, returns: Tensor, exists: Tensor, evidence: Evidence = Evidence()) -> Tensor:
        if evidence.soft_returns is None:
            raise ShapeError("soft_pass baseline: expected the returns of the soft pass, got none")
        return evidence.soft_returns.detach()


def leave_one_out(returns: Tensor) -> Tensor:
    """b_s = Σ_{s' ≠ s} G_s' / (S − 1) for returns (..., S, T). Raises ConfigError for a single sample."""
    samples = returns.shape[-2] if returns.dim() > 1 else 1
    if samples < 2:
        raise ConfigError("leave_one_out baseline: expected at least 2 samples of each caption, got 1")
    return (returns.sum(-2, keepdim=True) - returns) / (samples - 1)


BASELINES: dict[str, type[Baseline]] = {
    "none": NoBaseline,
    "moving_average": MovingAverage,
    "per_step": PerStep,
    "leave_one_out": LeaveOneOut,
    "learned": Learned,
    "soft_pass": SoftPass,
}
