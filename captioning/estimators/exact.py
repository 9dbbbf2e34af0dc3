"""Exact expectations over choices, for spaces small enough to list."""

import torch
from torch import Tensor

from captioning.errors import ConfigError

MOST = 1 << 20
"""Paths that are still listed."""


def all_paths(regions: int, steps: int) -> Tensor:
    """(R^T, T) int64: every sequence of T choices among R. Raises ConfigError where there are more than `MOST`."""
    if regions**steps > MOST:
        raise ConfigError(f"exact enumeration: expected at most {MOST:,} paths, got {regions}^{steps}")
    return torch.cartesian_prod(*[torch.arange(regions)] * steps).reshape(-1, steps)


def exact_expectation(log_probabilities: Tensor, rewards: Tensor) -> Tensor:
    """Σ_paths π(path) Σ_t r_t for all paths (P, T), with π(path) = Π_t π(s_t); differentiable through both."""
    return (log_probabilities.sum(-1).exp() * rewards.sum(-1)).sum()
