"""Would another training run agree? A t interval over paired seeds, an effect size, and Holm's correction.

With d_1 ... d_n the differences of two variants trained with the same n seeds, m their mean and s their standard
deviation, the interval is m ± t s / √n with t the quantile of Student's t with n - 1 degrees of freedom. It takes the
d as drawn from one normal distribution. The effect size is m / s, the difference in units of how much it varies between
trainings; its interval comes from the noncentral t, of which √n m / s is one draw.

Below `FEWEST_SEEDS` seeds nothing is claimed: s is hardly known, and the normal distribution can't be looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np
from scipy import optimize, stats

FEWEST_SEEDS = 4


@dataclass(frozen=True)
class SeedDifference:
    """What n paired seeds say of a difference."""

    seeds: int
    mean: float
    low: float
    """Of the t interval."""
    high: float
    p: float
    """Two-sided."""
    effect: float
    """m / s."""

    def effect_interval(self, *, confidence: float = 0.95) -> tuple[float, float]:
        """Of the effect size."""
        if not isfinite(self.low):
            return -inf, inf
        low, high = noncentrality_interval(self.effect * sqrt(self.seeds), self.seeds - 1, confidence=confidence)
        return low / sqrt(self.seeds), high / sqrt(self.seeds)


def paired_seeds(differences: Sequence[float], *, confidence: float = 0.95) -> SeedDifference | None:
    """The t interval, its p and the effect size; None with fewer than `FEWEST_SEEDS` seeds.

    Differences without any spread tell no s: p is 1, and the interval has no ends.
    """
    n = len(differences)
    if n < FEWEST_SEEDS:
        return None
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    if spread <= 1e-12 * max(1.0, abs(mean)):
        return SeedDifference(n, mean, -inf, inf, 1.0, 0.0)
    statistic = mean / (spread / sqrt(n))
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * spread / sqrt(n)
    p = float(2 * stats.t.sf(abs(statistic), n - 1))
    return SeedDifference(n, mean, mean - half, mean + half, p, mean / spread)


def noncentrality_interval(statistic: float, freedom: int, *, confidence: float) -> tuple[float, float]:
    """The δ for which `statistic` is the upper, and the lower, end of the middle of a noncentral t."""

    def ends_at(share: float) -> float:
        reach = 10.0 + 3 * abs(statistic)

        def off(shift: float) -> float:
            below = float(stats.nct.cdf(statistic, freedom, shift))
            return (below if isfinite(below) else float(shift < statistic)) - share

        return float(optimize.brentq(off, -reach, reach))

    return ends_at((1 + confidence) / 2), ends_at((1 - confidence) / 2)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's (1979) adjusted p values: those at most α are claims of which any is wrong with probability ≤ α.

    The k-th smallest of m is multiplied by m - k + 1, and none falls below one before it.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
