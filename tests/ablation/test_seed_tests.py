"""The t interval, the effect size's interval and Holm's correction, with scipy and an enumeration as judges."""

from itertools import combinations
from math import inf, sqrt

import numpy as np
import pytest
from scipy import stats

from captioning.ablation.seed_tests import FEWEST_SEEDS, holm, noncentrality_interval, paired_seeds

FIRST = [0.61, 0.58, 0.66, 0.63, 0.57]
SECOND = [0.55, 0.57, 0.58, 0.61, 0.52]


def test_it_is_scipys_paired_t_test():
    found = paired_seeds(np.subtract(FIRST, SECOND))
    judge = stats.ttest_rel(FIRST, SECOND)
    assert found.p == pytest.approx(judge.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(judge.confidence_interval(0.95)))
    assert found.effect == pytest.approx(judge.statistic / sqrt(5))
    low, high = found.effect_interval()
    assert stats.nct.cdf(judge.statistic, 4, sqrt(5) * high) == pytest.approx(0.025, abs=1e-6)
    assert low < found.effect < high


def test_below_four_seeds_nothing_is_claimed():
    assert FEWEST_SEEDS == 4
    assert paired_seeds([0.5, 0.5001, 0.5002]) is None
    assert paired_seeds([0.5, 0.5001, 0.5002, 0.5003]).p < 1e-6


def test_differences_without_spread_claim_nothing():
    for differences in ([0.0] * 5, [0.25] * 5):
        found = paired_seeds(differences)
        assert (found.p, found.low, found.high) == (1.0, -inf, inf)
        assert found.effect_interval() == (-inf, inf)


@pytest.mark.parametrize("statistic", [0.0, 1.7, -6.3, 40.0])
def test_the_ends_of_the_effect_interval_put_the_statistic_at_the_ends_of_the_noncentral_t(statistic):
    low, high = noncentrality_interval(statistic, 4, confidence=0.95)
    assert low < statistic < high
    assert stats.nct.sf(statistic, 4, low) == pytest.approx(0.025, abs=1e-6)
    assert stats.nct.cdf(statistic, 4, high) == pytest.approx(0.025, abs=1e-6)


def closed_testing(p_values):
    """Holm by its meaning: a hypothesis falls when every set that holds it falls to Bonferroni's test."""
    every = range(len(p_values))
    sets = [subset for size in range(1, len(p_values) + 1) for subset in combinations(every, size)]
    return [
        max(min(1.0, len(subset) * min(p_values[i] for i in subset)) for subset in sets if place in subset)
        for place in every
    ]


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_the_closed_test_of_bonferroni(seed):
    p_values = list(np.random.default_rng(seed).random(7) ** 3)
    assert holm(p_values) == pytest.approx(closed_testing(p_values))


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.2]) == [0.2]
