"""Paired tests over images: against full enumeration on three images, and scipy's permutation test."""

from itertools import product
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from captioning.ablation.counts import measures_of
from captioning.ablation.image_tests import (
    Resampling,
    bootstrap_interval,
    bootstrap_sums,
    randomization_p,
    swapped_sums,
)

[MEAN] = measures_of(["mean"])
BLEU_2 = next(each for each in measures_of(["BLEU"]) if each.name == "BLEU-2")


def of_images(values):
    return np.column_stack([values, np.ones(len(values))]).astype(float)


def bleu_counts(generator, images):
    lengths = generator.integers(4, 9, size=images)
    ngrams = lengths[:, None] - np.arange(4)
    matches = np.sort(generator.integers(0, ngrams + 1), axis=1)[:, ::-1]
    return np.column_stack([matches, ngrams, lengths, generator.integers(4, 9, size=images)]).astype(float)


def sums(counts, resampling):
    return bootstrap_sums({name: {1: each} for name, each in counts.items()}, resampling)


@pytest.mark.parametrize("measure", [MEAN, BLEU_2], ids=lambda each: each.name)
def test_resamples_are_all_draws_of_three_images_equally_often(measure):
    generator = np.random.default_rng(3)
    make = bleu_counts if measure is BLEU_2 else (lambda g, n: of_images(g.random(n)))
    first, second = make(generator, 3), make(generator, 3)
    resampling = Resampling(resamples=27 * 400)
    drawn = sums({"first": first, "second": second}, resampling)
    found = measure.value(drawn["first"][1]) - measure.value(drawn["second"][1])
    exact = [
        float(measure.value(first[list(draw)].sum(0)) - measure.value(second[list(draw)].sum(0)))
        for draw in product(range(3), repeat=3)
    ]
    # Dvoretzky, Kiefer, Wolfowitz: the largest gap to the true distribution exceeds this with chance <= 1e-9.
    bound = sqrt(np.log(2 / 1e-9) / (2 * len(found)))
    points = np.array(sorted(exact))
    gap = np.abs([np.mean(found <= p + 1e-12) - np.mean(points <= p + 1e-12) for p in points])
    assert gap.max() < bound
    low, high = bootstrap_interval(drawn["first"], drawn["second"], measure, [1])
    assert min(exact) - 1e-12 <= low <= high <= max(exact) + 1e-12


def test_the_bootstrap_spread_of_a_mean_is_its_closed_form():
    generator = np.random.default_rng(11)
    first, second = generator.random(101), generator.random(101)
    drawn = sums({"first": of_images(first), "second": of_images(second)}, Resampling(resamples=4000))
    found = np.var(MEAN.value(drawn["first"][1]) - MEAN.value(drawn["second"][1]))
    exact = np.var(first - second) / 101
    # The variance of a sample variance of n normal draws is 2 / n of its square; six deviations.
    assert found == pytest.approx(exact, rel=6 * sqrt(2 / 4000))


def randomization(first, second, measure, **settings):
    observed = float(measure.value(first.sum(0)) - measure.value(second.sum(0)))
    mine, others = swapped_sums({1: first}, {1: second}, [1], Resampling(**settings))
    return observed, randomization_p(observed, mine, others, measure)


@pytest.mark.parametrize("measure", [MEAN, BLEU_2], ids=lambda each: each.name)
def test_randomization_estimates_the_p_of_scipys_exact_permutation_test(measure):
    generator = np.random.default_rng(13)
    make = bleu_counts if measure is BLEU_2 else (lambda g, n: of_images(g.random(n)))
    first, second = make(generator, 7), make(generator, 7)
    observed, p = randomization(first, second, measure, resamples=20_000)

    def statistic(rows, others):
        return abs(
            float(measure.value(np.where(rows[:, None] == 0, first, second).sum(0)))
            - float(measure.value(np.where(others[:, None] == 0, first, second).sum(0)))
        )

    judge = stats.permutation_test(
        (np.zeros(7), np.ones(7)),
        statistic,
        permutation_type="samples",
        alternative="greater",
        n_resamples=np.inf,
        vectorized=False,
    )
    assert judge.statistic == pytest.approx(abs(observed))
    # Hoeffding: a share of n draws is off by more than sqrt(ln(2 / q) / 2n) with chance <= q.
    assert p == pytest.approx(judge.pvalue, abs=sqrt(np.log(2 / 1e-9) / 40_000) + 1 / 20_000)


def test_equal_answers_have_no_difference_and_a_p_of_one():
    counts = bleu_counts(np.random.default_rng(17), 19)
    drawn = sums({"first": counts, "second": counts.copy()}, Resampling(resamples=300))
    assert bootstrap_interval(drawn["first"], drawn["second"], BLEU_2, [1]) == (0.0, 0.0)
    assert randomization(counts, counts.copy(), BLEU_2, resamples=300) == (0.0, 1.0)


def test_shared_images_are_drawn_for_all_seeds_at_once_and_others_apart():
    counts = {"first": {1: of_images(np.arange(13.0)), 2: of_images(np.arange(13.0))}}
    shared = bootstrap_sums(counts, Resampling(resamples=5, shared=True))["first"]
    apart = bootstrap_sums(counts, Resampling(resamples=5, shared=False))["first"]
    assert np.array_equal(shared[1], shared[2])
    assert not np.array_equal(apart[1], apart[2])


def test_chunks_are_joined_without_gap():
    counts = {"first": {1: of_images(np.arange(5.0))}}
    drawn = bootstrap_sums(counts, Resampling(resamples=777))["first"][1]
    assert drawn.shape == (777, 2)
    assert np.array_equal(drawn[:, 1], np.full(777, 5.0))
