"""Confidence intervals: closed forms, and what must hold for any metric."""

import numpy as np
import pytest

from captioning.metrics import score
from captioning.metrics.bootstrap import Bootstrap, Summable

REFERENCES = {image: [f"a dog number {image}", "two dogs"] for image in range(31)}
CAPTIONS = {image: f"a dog number {image % 7}" for image in range(31)}


def test_equal_images_have_an_interval_without_width() -> None:
    interval = Bootstrap(23, resamples=50).interval(Summable.mean(np.full(23, 0.25)))
    assert interval == pytest.approx((0.25, 0.25))


def test_a_mean_has_the_interval_of_its_standard_error() -> None:
    values = np.random.default_rng(3).normal(size=997)
    low, high = Bootstrap(997, resamples=4000).interval(Summable.mean(values))
    error = values.std() / np.sqrt(997)
    # of 4,000 draws a 2.5 % quantile lies within 5 standard errors of its own: 5 sqrt(.025 .975 / 4000) / .058 = 0.21
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.22 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.22 * error)


def test_all_metrics_have_intervals_around_their_values_and_the_same_again() -> None:
    names = ("BLEU-1", "BLEU-4", "BLEU-4-no-penalty", "ROUGE-L", "CIDEr-D", "CIDEr-plain")
    scores = score(CAPTIONS, REFERENCES, names, resamples=200)
    assert set(scores.intervals) == set(names)
    for name, (low, high) in scores.intervals.items():
        assert low <= scores.corpus[name] <= high
        assert low < high
    assert score(CAPTIONS, REFERENCES, names, resamples=200).intervals == scores.intervals
    assert score(CAPTIONS, REFERENCES, names).intervals == {}


def test_a_corpus_of_ratios_is_resampled_by_counts_not_by_values() -> None:
    ratios = Summable(np.array([[1.0, 1.0], [0.0, 99.0]]), lambda sums: sums[..., 0] / sums[..., 1])
    assert ratios.images.tolist() == [1.0, 0.0]
    assert ratios.corpus == 0.01
    low, high = Bootstrap(2, resamples=100).interval(ratios)
    assert (low, high) == (0.0, 1.0)
