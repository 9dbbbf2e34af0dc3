"""How uncertain a corpus value is: bootstrap over images (Efron, 1979; for BLEU, Koehn, 2004)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Summable:
    """A metric as a function of counts that add up over images."""

    counts: Values
    """(images, counts) of each image."""
    value: Callable[[Values], Values]
    """The metric (...,) from counts (..., counts), of single images or of any sum of them."""

    @classmethod
    def mean(cls, values: Values) -> "Summable":
        """A metric of which the corpus has the mean over its images (images,)."""
        return cls(np.column_stack([values, np.ones(len(values))]), lambda sums: sums[..., 0] / sums[..., 1])

    @property
    def images(self) -> Values:
        """(images,) the value of each."""
        return self.value(self.counts)

    @property
    def corpus(self) -> float:
        """The value of all together."""
        return float(self.value(self.counts.sum(axis=0)))


class Interval(NamedTuple):
    """Bounds of a confidence interval."""

    low: float
    high: float


class Bootstrap:
    """Draws as many images as there are, with replacement, many times; the same draws serve all metrics."""

    def __init__(self, images: int, *, resamples: int, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self._times = generator.multinomial(images, np.full(images, 1 / images), size=resamples).astype(np.float64)

    def interval(self, metric: Summable, *, confidence: float = 0.95) -> Interval:
        """Between these percentiles lie the values of that share of the resampled corpora."""
        values = metric.value(self._times @ metric.counts)
        low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
        return Interval(float(low), float(high))
