"""Would other test images agree? Paired tests over images, for trained models as they are.

The two variants answer the same images. Let d(I) be the difference of a measure, a mean over seeds, on the images I.

Paired bootstrap (Efron and Tibshirani, 1993; Koehn, 2004): images are drawn with replacement, for both variants
alike; the middle 95 % of d over the draws is the interval.

Approximate randomization (Noreen, 1989; Riezler and Maxwell, 2005): if the variants did not differ, it would not
matter which of the two gave which answer to an image; so their answers are swapped image by image, by the toss of a
coin, and p = (1 + number of |d| at least as large as the observed one) / (1 + number of tosses), which is exact for any
number of tosses.

Both take images as drawn independently from all images that one might ask about. Where the seeds share their images,
an image is drawn or swapped for all seeds at once; where each seed has images of its own, independently.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from captioning.ablation.counts import Measure, Values

_CHUNK = 256
"""Resamples at a time: memory stays at a few megabytes."""
_ROUNDING = 1e-12
"""Differences that are equal but for rounding count as equal."""

Sums = Mapping[int, Values]
"""Seed -> (resamples, k) summed counts."""


@dataclass(frozen=True)
class Resampling:
    """How often, and from which random numbers."""

    resamples: int = 5000
    seed: int = 0
    shared: bool = True
    """Whether all seeds have the same images."""

    def weights(self, seed: int, images: int) -> Iterator[Values]:
        """(chunk, N): how often each image is in each resample."""
        generator = self._generator(0, seed)
        for size in self._chunks():
            drawn = generator.integers(images, size=(size, images))
            rows = drawn + images * np.arange(size)[:, None]
            yield np.bincount(rows.ravel(), minlength=size * images).reshape(size, images).astype(np.float64)

    def coins(self, seed: int, images: int) -> Iterator[Values]:
        """(chunk, N): 1 where an image's answers are swapped."""
        generator = self._generator(1, seed)
        for size in self._chunks():
            yield generator.integers(2, size=(size, images)).astype(np.float64)

    def _generator(self, kind: int, seed: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, kind, 0 if self.shared else seed + 1))

    def _chunks(self) -> Iterator[int]:
        for start in range(0, self.resamples, _CHUNK):
            yield min(_CHUNK, self.resamples - start)


def bootstrap_sums(counts: Mapping[str, Mapping[int, Values]], resampling: Resampling) -> dict[str, dict[int, Values]]:
    """Variant -> seed -> (N, k) counts to variant -> seed -> (resamples, k) sums over resampled images.

    All variants see the same resamples of a seed, so that differences of their sums are paired.
    """
    sums: dict[str, dict[int, Values]] = {name: {} for name in counts}
    for seed in sorted({seed for runs in counts.values() for seed in runs}):
        names = [name for name, runs in counts.items() if seed in runs]
        side_by_side = np.hstack([counts[name][seed] for name in names])
        resampled = np.concatenate([each @ side_by_side for each in resampling.weights(seed, len(side_by_side))])
        for name, columns in zip(names, np.hsplit(resampled, len(names)), strict=True):
            sums[name][seed] = columns
    return sums


def bootstrap_interval(
    first: Sums, second: Sums, measure: Measure, seeds: Sequence[int], *, confidence: float = 0.95
) -> tuple[float, float]:
    """The middle `confidence` of the difference first - second, a mean over `seeds`, from `bootstrap_sums`."""
    differences = np.mean([measure.value(first[seed]) - measure.value(second[seed]) for seed in seeds], axis=0)
    low, high = np.quantile(differences, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def swapped_sums(
    first: Mapping[int, Values], second: Mapping[int, Values], seeds: Sequence[int], resampling: Resampling
) -> tuple[dict[int, Values], dict[int, Values]]:
    """The sums (resamples, k) of both variants after their answers were swapped at random, for each seed."""
    mine, others = {}, {}
    for seed in seeds:
        change = second[seed] - first[seed]
        moved = np.concatenate([coins @ change for coins in resampling.coins(seed, len(change))])
        mine[seed] = first[seed].sum(axis=0) + moved
        others[seed] = second[seed].sum(axis=0) - moved
    return mine, others


def randomization_p(observed: float, mine: Sums, others: Sums, measure: Measure) -> float:
    """p of the two-sided test, from `swapped_sums`."""
    differences = np.mean([measure.value(mine[seed]) - measure.value(others[seed]) for seed in mine], axis=0)
    extreme = np.abs(differences) >= abs(observed) - _ROUNDING
    return float((1 + extreme.sum()) / (1 + len(differences)))
