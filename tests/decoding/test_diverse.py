"""Diverse beam search against plain loops, and at the two ends of its strength."""

import pytest
import torch

from captioning.decoding.beam import beam_search
from captioning.decoding.constraints import Constraints
from captioning.decoding.diverse import diverse_beam_search
from captioning.errors import ConfigError
from tests.decoding.cases import CONSTRAINTS, END, FORBIDDEN, START, A, summary, wanted
from tests.oracles import plain_search
from tests.oracles.transition_table import TransitionTable, random_table

PLAIN = Constraints(END, 6, forbidden=FORBIDDEN)


def search(table, constraints=PLAIN, **options):
    start = torch.full((len(table),), START)
    return diverse_beam_search(TransitionTable(table), start=start, constraints=constraints, ranking="none", **options)


@pytest.mark.parametrize("diversity", [0.0, 0.3, 2.0])
@pytest.mark.parametrize(("groups", "size"), [(1, 3), (3, 1), (2, 3)])
def test_it_is_the_plain_loop(diversity, groups, size):
    table = random_table(11, words=9, seed=1)
    table[::3, ..., END] += 1
    found = search(table, groups=groups, group_size=size, diversity=diversity)
    for image, hypotheses in enumerate(found):
        expected = plain_search.diverse(table, image, groups, size, diversity, PLAIN)
        assert sorted(summary(hypotheses)) == sorted(expected)


@pytest.mark.parametrize("name", [name for name in CONSTRAINTS if "must_include" not in CONSTRAINTS[name]])
def test_with_constraints_it_is_the_plain_loop(name):
    table, asked = random_table(7, words=7, seed=2), wanted(name, 5)
    for image, hypotheses in enumerate(search(table, asked, groups=2, group_size=2, diversity=0.5)):
        expected = plain_search.diverse(table, image, 2, 2, 0.5, asked)
        assert sorted(summary(hypotheses)) == sorted(expected)


def test_without_a_penalty_all_groups_are_the_same_beam():
    table = random_table(7, words=9, seed=3)
    start = torch.full((7,), START)
    beams = beam_search(TransitionTable(table), start=start, constraints=PLAIN, beam_size=2, ranking="none")
    for hypotheses, once in zip(search(table, groups=3, group_size=2, diversity=0.0), beams, strict=True):
        assert summary(hypotheses) == [each for each in summary(once) for _ in range(3)]


def test_the_first_group_is_a_plain_beam():
    table = random_table(7, words=9, seed=4)
    start = torch.full((7,), START)
    beams = beam_search(TransitionTable(table), start=start, constraints=PLAIN, beam_size=2, ranking="none")
    for hypotheses, once in zip(search(table, groups=3, group_size=2, diversity=1.0), beams, strict=True):
        assert set(summary(once)) <= set(summary(hypotheses))


def test_a_strong_penalty_lets_no_group_say_a_word_of_another_at_the_same_place():
    table = random_table(7, words=40, seed=5)
    asked = Constraints(END, 5, forbidden=FORBIDDEN, minimum_length=4)
    for hypotheses in search(table, asked, groups=5, diversity=1e4):
        assert len(hypotheses) == 5
        for words in zip(*(each.words[:4] for each in hypotheses), strict=True):
            assert len(set(words)) == 5


def test_groups_with_a_word_that_must_appear_all_say_it():
    asked = Constraints(END, 6, forbidden=FORBIDDEN, must_include=(A,))
    for hypotheses in search(random_table(7, words=9, seed=6), asked, groups=3, group_size=2, diversity=1.0):
        assert len(hypotheses) == 6
        assert all(A in each.words for each in hypotheses)


def test_wrong_calls_say_what_was_expected():
    table = random_table(1, words=7, seed=7)
    with pytest.raises(ConfigError, match="groups: expected at least 1, got 0"):
        search(table, groups=0)
    with pytest.raises(ConfigError, match="diversity: expected a number >= 0, got -1"):
        search(table, groups=2, diversity=-1)
