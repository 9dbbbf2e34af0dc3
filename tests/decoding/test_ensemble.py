"""An ensemble of tables is the table of their mean probabilities, in every search."""

import math

import pytest
import torch

from captioning.decoding.ensemble import EnsembleStep, of_member
from captioning.decoding.trace import WEIGHTS
from tests.decoding.cases import START, combinations, found_by, summary, wanted
from tests.oracles.transition_table import TransitionTable, random_table


@pytest.mark.parametrize(("search", "constraints"), combinations())
def test_it_searches_as_in_the_table_of_mean_probabilities(search, constraints):
    tables = [random_table(7, words=7, seed=seed) for seed in (1, 2, 3)]
    mean = torch.stack(tables).exp().mean(0).log()
    asked = wanted(constraints, 6)
    step = EnsembleStep([TransitionTable(table, regions) for table, regions in zip(tables, (7, 11, 13), strict=True)])
    together, expected = found_by(search, mean, asked, step), found_by(search, mean, asked)
    for hypotheses, of_mean in zip(together, expected, strict=True):
        assert summary(hypotheses) == summary(of_mean)
        for one, other in zip(hypotheses, of_mean, strict=True):
            assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-5)
            assert one.score == pytest.approx(other.score, abs=1e-5)


def test_each_members_weights_follow_the_hypothesis():
    tables = [random_table(5, words=7, seed=seed) for seed in (1, 2)]
    step = EnsembleStep([TransitionTable(table, regions) for table, regions in zip(tables, (11, 13), strict=True)])
    for hypotheses in found_by("beam", tables[0], wanted("none", 6), step):
        for each in hypotheses:
            assert torch.equal(each.weights, each.details[of_member(0, WEIGHTS)])
            for number, regions in enumerate((11, 13)):
                weights = each.details[of_member(number, WEIGHTS)]
                assert weights.shape == (len(each.words), regions)
                for time, row in enumerate(weights):
                    assert row[: time + 1].tolist() == [START, *each.words[:time]]


def test_two_equal_members_are_one():
    table = random_table(5, words=7, seed=4)
    alone = found_by("beam", table, wanted("none", 6))
    twice = found_by("beam", table, wanted("none", 6), EnsembleStep([TransitionTable(table), TransitionTable(table)]))
    for one, other in zip(alone, twice, strict=True):
        assert summary(one) == summary(other)
        assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-6)


def test_a_word_that_one_member_rules_out_keeps_half_of_the_others_probability():
    certain = torch.full((1, 7, 7, 7), -torch.inf)
    certain[..., 2] = 0
    other = torch.full((1, 7, 7, 7), -torch.inf)
    other[..., 4] = 0
    step = EnsembleStep([TransitionTable(certain), TransitionTable(other)])
    said = step.advance(step.start(), torch.tensor([[START]]))
    assert said.log_probabilities[0, 0, [2, 4]].tolist() == pytest.approx([math.log(0.5)] * 2)
    assert said.log_probabilities[0, 0, 5] == -torch.inf
