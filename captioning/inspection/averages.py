"""Means over words, with how much another choice of images would change them."""

from typing import NamedTuple

import numpy as np

from captioning.metrics.bootstrap import Bootstrap, Summable

RESAMPLES = 2000


class Average(NamedTuple):
    """A mean over words, and its 95 % interval by a bootstrap over images."""

    value: float
    low: float
    high: float

    @property
    def is_positive(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.low > 0

    @property
    def is_negative(self) -> bool:
        """Whether the whole interval lies below 0."""
        return self.high < 0


def average(values: np.ndarray, image: np.ndarray) -> Average:
    """Of values (n,) of words of the images (n,); words of one image are drawn together. NaN without any word.

    Images without a word do not count. With one image alone the interval is that image's value.
    """
    if not len(values):
        return Average(np.nan, np.nan, np.nan)
    _, place = np.unique(image, return_inverse=True)
    counts = np.stack([np.bincount(place, values), np.bincount(place)], axis=1).astype(np.float64)
    mean = Summable(counts, lambda sums: sums[..., 0] / sums[..., 1])
    interval = Bootstrap(len(counts), resamples=RESAMPLES).interval(mean)
    return Average(mean.corpus, interval.low, interval.high)
