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
    unseen: float = 0.0
    """The part of the exact gradient that lies on choices too rare for N draws, as |part| / |exact|: the mean may lack
    it without any bias, and neither `bias_error` nor `variance` knows of it."""

    @property
    def biased(self) -> bool | None:
        """Whether `bias` is more than chance; None where it is not known, or may be of choices that were not seen."""
        if self.bias is None or self.bias <= SURE * self.bias_error + ROUNDING:
            return None if self.bias is None else False
        return True if self.bias > SURE * self.bias_error + self.unseen + ROUNDING else None


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

    def quality(
        self, exact: Tensor | None = None, rare: Tensor | None = None, part: slice | Tensor = slice(None)
    ) -> Quality:
        """Of the components `part`, against exact (P,), of which `rare` (P,) lies on choices too rare to be drawn.

        Raises ShapeError for fewer than two estimates."""
        if self.count < 2:
            raise ShapeError(f"estimates: expected (N, P) with N of at least 2, got N = {self.count}")
        mean, variance = self._mean[part], (self._squares[part] / (self.count - 1)).sum().item()
        known = None if exact is None else exact.double()[part]
        scale = (mean if known is None else known).norm().item() or float("nan")
        bias = None if known is None else (mean - known).norm().item() / scale
        error = (variance / self.count) ** 0.5 / scale
        signal = mean.square().sum().item()
        unseen = 0.0 if rare is None else rare.double()[part].norm().item() / scale
        return Quality(bias, error, variance, signal / variance if variance > 0 else float("inf"), unseen)


def measure(estimates: Tensor, exact: Tensor | None = None) -> Quality:
    """Estimates (N, P), exact (P,). Raises ShapeError for fewer than two estimates."""
    if estimates.dim() != 2:
        raise ShapeError(f"estimates: expected (N, P) with N of at least 2, got {tuple(estimates.shape)}")
    moments = Moments()
    for estimate in estimates:
        moments.add(estimate)
    return moments.quality(exact)
