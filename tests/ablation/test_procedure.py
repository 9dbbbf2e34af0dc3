"""The whole procedure, from counts of images to what is printed in bold, keeps its promise where nothing differs."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from captioning.ablation.comparison import ALPHA, compare
from captioning.ablation.image_tests import Resampling

VARIANTS, SEEDS, IMAGES, STUDIES = ("reference", "a", "b", "c"), (1, 2, 3, 4, 5), 41, 200
JUDGED = ("CIDEr-D", "exact")
CHANCE = 1e-5


def study(generator, *, training_noise, shared, shift=0.0):
    """Counts of a study whose variants do not differ but by `shift`: images differ, and trainings by their luck."""
    counts = {name: {} for name in VARIANTS}
    difficulty = generator.normal(size=IMAGES)
    for seed in SEEDS:
        if not shared:
            difficulty = generator.normal(size=IMAGES)
        for name in VARIANTS:
            luck = training_noise * generator.normal() + (shift if name == "a" else 0.0)
            values = difficulty + luck + generator.normal(size=IMAGES)
            columns = {"CIDEr-D": values, "exact": (values > 0).astype(float)}
            counts[name][seed] = {each: np.column_stack([v, np.ones(IMAGES)]) for each, v in columns.items()}
    return counts


def claims(*, studies=STUDIES, **settings):
    """How many studies make any claim: over images, over seeds, in bold."""
    generator = np.random.default_rng(2024)
    made = np.zeros(3, dtype=int)
    for number in range(studies):
        counts = study(generator, **settings)
        resampling = Resampling(resamples=199, seed=number, shared=settings["shared"])
        found = compare(counts, "reference", JUDGED, resampling)
        assert len(found) == (len(VARIANTS) - 1) * len(JUDGED)
        made += [any(getattr(each, kind) for each in found) for kind in ("images_agree", "seeds_agree", "holds")]
    return made


def most(share):
    """A binomial count of `STUDIES` with this chance exceeds it with probability `CHANCE`."""
    return stats.binom.isf(CHANCE, STUDIES, share)


@pytest.mark.parametrize("shared", [True, False], ids=["same images", "own images"])
def test_where_nothing_differs_any_claim_is_made_in_at_most_one_study_of_twenty(shared):
    over_images, over_seeds, bold = claims(training_noise=0.0, shared=shared)
    assert over_images <= most(ALPHA)
    assert over_seeds <= most(ALPHA)
    assert bold <= most(ALPHA)
    assert most(ALPHA) < STUDIES * (1 - (1 - ALPHA) ** 6)  # so that six tests without correction would be found out


def test_where_only_the_luck_of_trainings_differs_images_agree_and_bold_keeps_its_promise():
    over_images, over_seeds, bold = claims(training_noise=1.0, shared=True)
    assert over_images > STUDIES / 2  # these very models do differ, and the report says so of them alone
    assert over_seeds <= most(ALPHA)
    assert bold <= most(ALPHA)


def test_a_difference_is_found():
    _, _, bold = claims(studies=20, training_noise=0.1, shared=True, shift=1.0)
    assert bold == 20


def test_a_bootstrap_over_five_seeds_would_break_the_promise():
    """Why the t interval: the middle 95 % of resampled means of five leaves out the truth far more often than one
    time in twenty. All 5^5 resamples are listed."""
    studies = 1000
    resamples = np.array(list(product(range(5), repeat=5)))
    shares = (resamples[:, :, None] == np.arange(5)).mean(axis=1)
    differences = np.random.default_rng(7).normal(size=(studies, 5))
    low, high = np.quantile(differences @ shares.T, [0.025, 0.975], axis=-1)
    wrong = int(((low > 0) | (high < 0)).sum())
    assert wrong > stats.binom.isf(CHANCE, studies, 2 * ALPHA)


def test_runs_that_are_missing_leave_the_seeds_that_both_have():
    counts = study(np.random.default_rng(3), training_noise=0.1, shared=True)
    del counts["a"][4], counts["a"][5], counts["b"], counts["c"][1]
    counts["b"] = {}
    found = compare(counts, "reference", ("exact",), Resampling(resamples=99))
    assert {each.variant: each.seeds for each in found} == {"a": (1, 2, 3), "c": (2, 3, 4, 5)}
    assert [each.seed_p is None for each in found] == [True, False]
    assert not found[0].holds


def test_without_the_reference_there_is_nothing_to_compare():
    counts = study(np.random.default_rng(3), training_noise=0.1, shared=True)
    counts["reference"] = {}
    assert compare(counts, "reference", ("exact",)) == []
