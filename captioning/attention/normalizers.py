"""Normalizers: scores over the available keys become weights, non-negative and summing to one."""

import torch
from torch import Tensor, nn

from captioning.errors import ConfigError


def softmax(scores: Tensor, mask: Tensor | None = None, *, temperature: float = 1.0) -> Tensor:
    """w_j = exp(s_j / τ) / Σ_available exp(s / τ) over the last axis; computed in at least float32.

    Masked keys get exactly 0, whatever their scores hold (NaN and inf included), forward and backward. A row without
    any available key gets zero weights and zero gradients: the fast path behind `check_available`.
    """
    scores = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    scores = scores if temperature == 1.0 else scores / temperature
    if mask is None:
        return scores.softmax(-1)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)


class Softmax(nn.Module):
    """`softmax` with a temperature τ > 0: smaller is more peaked."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not temperature > 0:
            raise ConfigError(f"softmax temperature: expected a number > 0, got {temperature}")
        self.temperature = temperature

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """(..., R) scores -> (..., R) weights."""
        return softmax(scores, mask, temperature=self.temperature)


class Uniform(nn.Module):
    """A control, no attention: 1 / (number of available keys) on each, whatever the scores."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """(..., R) scores -> (..., R) weights."""
        return softmax(torch.zeros_like(scores), mask)


NORMALIZERS: dict[str, type[nn.Module]] = {"softmax": Softmax, "uniform": Uniform}
