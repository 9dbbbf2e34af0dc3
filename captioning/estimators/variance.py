"""How good an estimator is: its bias, its variance, and the ratio of signal to noise."""

from typing import NamedTuple

import torch
from torch import Tensor

from captioning.errors import ShapeError

SURE = 3.0
"""A bias above so many of its standard errors is called one.

Of an unbiased estimator the squared ratio of the two is a mean of squared standard normals with some weights, and
such a mean exceeds 9 with a chance of at most P(χ²₁ > 9) = 0.0027, whatever the weights (Székely and Bakirov, 2003).
"""


class Quality(NamedTuple):
    """Of N estimates of a gradient with P components."""

    bias: float | None
    """|mean − exact| / |exact|; None where the exact gradient is not known."""
    bias_error: float
    """The standard error of the mean in the same units (of |mean| where exact is not known): what `bias` is in root
    mean square where there is none."""
    variance: float
    """Σ_p Var, the expected squared distance of an estimate from the mean."""
    signal_to_noise: float
    """|mean|² / variance; at least about 1 / N, by chance alone."""

    @property
    def biased(self) -> bool | None:
        """Whether `bias` is more than chance; None where it is not known."""
        return None if self.bias is None else self.bias > SURE * self.bias_error + ROUNDING


ROUNDING = 1e-5
"""A bias that is none: estimates without variance are rounded, too."""


class Moments:
    """Mean and variance of estimates (P,) that come one by one and are not kept (Welford, 1962)."""

    def __init__(self) -> None:
        self.count = 0
        self._mean = self._squares = torch.zeros(())

    def add(self, estimate: Tensor) -> None:
        """One more estimate."""
        estimate = estimate.double()
        self.count += 1
        before = estimate - self._mean
        self._mean = self._mean + before / self.count
        self._squares = self._squares + before * (estimate - self._mean)

    def quality(self, exact: Tensor | None = None, part: slice | Tensor = slice(None)) -> Quality:
        """Of the components `part`, against exact (P,). Raises ShapeError for fewer than two estimates."""
        if self.count < 2:
            raise ShapeError(f"estimates: expected (N, P) with N of at least 2, got N = {self.count}")
        mean, variance = self._mean[part], (self._squares[part] / (self.count - 1)).sum().item()
        known = None if exact is None else exact.double()[part]
        scale = (mean if known is None else known).norm().item() or float("nan")
        bias = None if known is None else (mean - known).norm().item() / scale
        error = (variance / self.count) ** 0.5 / scale
        signal = mean.square().sum().item()
        return Quality(bias, error, variance, signal / variance if variance > 0 else float("inf"))


def measure(estimates: Tensor, exact: Tensor | None = None) -> Quality:
    """Estimates (N, P), exact (P,). Raises ShapeError for fewer than two estimates."""
    if estimates.dim() != 2:
        raise ShapeError(f"estimates: expected (N, P) with N of at least 2, got {tuple(estimates.shape)}")
    moments = Moments()
    for estimate in estimates:
        moments.add(estimate)
    return moments.quality(exact)
