"""How good an estimator is: its bias, its variance, and the ratio of signal to noise."""

from typing import NamedTuple

from torch import Tensor

from captioning.errors import ShapeError


class Quality(NamedTuple):
    """Of N estimates of a gradient with P components."""

    bias: float | None
    """|mean − exact| / |exact|; None where the exact gradient is not known."""
    bias_error: float
    """The standard error of the mean in the same units (of |mean| where exact is not known): a smaller bias than about
    twice this cannot be told from none."""
    variance: float
    """Σ_p Var, the expected squared distance of an estimate from the mean."""
    signal_to_noise: float
    """|mean|² / variance."""


def measure(estimates: Tensor, exact: Tensor | None = None) -> Quality:
    """Estimates (N, P), exact (P,). Raises ShapeError for fewer than two estimates."""
    if estimates.dim() != 2 or len(estimates) < 2:
        raise ShapeError(f"estimates: expected (N, P) with N of at least 2, got {tuple(estimates.shape)}")
    mean, variance = estimates.mean(0), estimates.var(0).sum().item()
    scale = (mean if exact is None else exact).norm().item()
    bias = None if exact is None else (mean - exact).norm().item() / scale
    error = (variance / len(estimates)) ** 0.5 / scale
    signal = mean.square().sum().item()
    return Quality(bias, error, variance, signal / variance if variance > 0 else float("inf"))
