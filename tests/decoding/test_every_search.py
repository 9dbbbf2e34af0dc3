"""What holds for every search with every constraint: captions as wanted, rescored, with own maps, in any batch."""

import math

import pytest
import torch

from captioning.decoding.constraints import Constraints
from captioning.decoding.methods import SEARCHES as METHODS
from captioning.decoding.ranking import RANKINGS
from captioning.decoding.search import METHODS as NAMES
from captioning.errors import CaptioningError
from tests.decoding.cases import END, FORBIDDEN, SEARCHES, START, A, B, combinations, found_by, summary, wanted
from tests.oracles.plain_search import may_follow, obeys
from tests.oracles.transition_table import memoryless_table, random_table, rescore

LONGEST = 7
every_combination = pytest.mark.parametrize(("search", "constraints"), combinations())
every_search = pytest.mark.parametrize("search", SEARCHES)


def table_of(images: int, seed: int):
    """Seven words, END likelier in some images than in others."""
    table = random_table(images, words=7, seed=seed)
    table[::3, ..., END] += 2
    return table.log_softmax(-1)


def test_every_method_is_tested_here():
    assert {search.method for search in SEARCHES.values()} == set(METHODS) == set(NAMES)


@every_combination
def test_captions_are_as_wanted(search, constraints):
    asked = wanted(constraints, LONGEST)
    for hypotheses in found_by(search, table_of(11, seed=1), asked):
        assert hypotheses
        for each in hypotheses:
            for length in range(len(each.words)):
                assert may_follow(each.words[:length], each.words[length], asked)
            if each.finished:
                assert obeys(each.words, asked)


@every_combination
def test_the_reported_score_is_the_rescored_one(search, constraints):
    table = table_of(11, seed=2)
    penalty = RANKINGS[SEARCHES[search].ranking]
    for image, hypotheses in enumerate(found_by(search, table, wanted(constraints, LONGEST))):
        for each in hypotheses:
            choices = each.words + ((END,) if each.finished else ())
            again = rescore(table, image, START, choices)
            assert each.log_probabilities == pytest.approx(again, abs=1e-5)
            assert each.log_probability == pytest.approx(math.fsum(again), abs=1e-4)
            assert each.score == pytest.approx(math.fsum(again) / penalty(len(choices)), abs=1e-4)


@every_combination
def test_every_caption_has_its_own_weights_and_best_comes_first(search, constraints):
    for hypotheses in found_by(search, table_of(11, seed=3), wanted(constraints, LONGEST)):
        order = [(each.finished, each.score) for each in hypotheses]
        assert order == sorted(order, reverse=True)
        for each in hypotheses:
            assert len(each.weights) == len(each.words)
            for time, row in enumerate(each.weights):
                read = (START, *each.words[:time])
                assert row.tolist() == [*read, *[-1] * (11 - len(read))]


@every_combination
def test_companions_in_the_batch_change_nothing(search, constraints):
    """The first images alone, and with others: for sampling too, since each image has numbers of its own."""
    table, asked = table_of(7, seed=4), wanted(constraints, LONGEST)
    together = found_by(search, table, asked)
    for size in (1, 3):
        for hypotheses, expected in zip(found_by(search, table[:size], asked), together, strict=False):
            assert summary(hypotheses) == summary(expected)
            for one, other in zip(hypotheses, expected, strict=True):
                assert one.score == other.score
                assert torch.equal(one.weights, other.weights)


@every_search
def test_what_never_ends_comes_back_cut_off_with_its_best(search):
    table = memoryless_table(2, pad=0, start=0, end=0, unknown=0, a=0.7, b=0.3, c=0)
    for hypotheses in found_by(search, table, Constraints(END, 5, forbidden=FORBIDDEN)):
        assert not any(each.finished for each in hypotheses)
        assert all(len(each.words) == 5 and math.isfinite(each.score) for each in hypotheses)
        if search != "sampling":
            assert hypotheses[0].words == (A,) * 5


@every_search
def test_where_nothing_may_follow_the_caption_is_cut_off_there(search):
    """A and B, each once, and END never: after both there is nothing left to say."""
    table = memoryless_table(2, pad=0.1, start=0.1, end=0, unknown=0.1, a=0.4, b=0.3, c=0)
    asked = Constraints(END, 5, forbidden=FORBIDDEN, no_repeat_ngram=1)
    for hypotheses in found_by(search, table, asked):
        assert {each.finished for each in hypotheses} == {False}
        assert {each.words for each in hypotheses} <= {(A, B), (B, A)}


@pytest.mark.parametrize("search", ["greedy", "beam", "diverse"])
def test_what_is_cut_off_still_says_the_words_that_must_appear(search):
    table = memoryless_table(2, pad=0, start=0, end=0, unknown=0, a=0.899, b=0.1, c=0.001)
    asked = Constraints(END, 4, forbidden=FORBIDDEN, must_include=(6, B))
    for hypotheses in found_by(search, table, asked):
        assert not any(each.finished for each in hypotheses)
        assert all({6, B} <= set(each.words) for each in hypotheses)


@every_search
def test_nan_is_named(search):
    with pytest.raises(CaptioningError, match="got NaN for word 1"):
        found_by(search, random_table(2, words=7, seed=1) * float("nan"), Constraints(END, 5, forbidden=FORBIDDEN))


@every_search
def test_log_probabilities_in_bfloat16_are_summed_in_float32(search):
    table = memoryless_table(1, pad=0, start=0, end=0, unknown=0, a=1 - 2**-6, b=2**-6, c=0).bfloat16()
    [hypotheses] = found_by(search, table, Constraints(END, 10, forbidden=FORBIDDEN))
    for each in hypotheses:
        exact = math.fsum(table[0, 0, 0, word].item() for word in each.words)
        assert each.score * RANKINGS[SEARCHES[search].ranking](10) == pytest.approx(exact, rel=1e-5)
