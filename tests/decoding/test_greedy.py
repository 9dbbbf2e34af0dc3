"""Greedy search against an argmax loop."""

import pytest
import torch

from captioning.decoding.beam import beam_search
from captioning.decoding.constraints import Constraints
from captioning.decoding.greedy import greedy
from captioning.decoding.ranking import RANKINGS
from tests.oracles.transition_table import TransitionTable, memoryless_table, random_table

PAD, START, END, UNKNOWN, A = range(5)
FORBIDDEN = (PAD, START, UNKNOWN)


def _argmax_loop(table: torch.Tensor, longest: int) -> tuple[tuple[int, ...], bool]:
    read = [START, START]
    while len(read) - 2 < longest:
        row = table[read[-2], read[-1]].clone()
        row[list(FORBIDDEN)] = -torch.inf
        read.append(int(row.argmax()))
        if read[-1] == END:
            return tuple(read[2:-1]), True
    return tuple(read[2:]), False


@pytest.mark.parametrize("ranking", RANKINGS)
def test_greedy_takes_the_likeliest_word_at_every_step(ranking):
    table = random_table(31, words=7, seed=1)
    table[::3, ..., END] += 1
    options = {"start": torch.full((31,), START), "constraints": Constraints(END, 8, forbidden=FORBIDDEN)}
    found = greedy(TransitionTable(table), ranking=ranking, **options)
    expected = [_argmax_loop(image, 8) for image in table]
    assert [(each.words, each.finished) for [each] in found] == expected
    assert {finished for _, finished in expected} == {True, False}
    beams = beam_search(TransitionTable(table), beam_size=1, ranking=ranking, **options)
    assert [len(beam) for beam in beams] == [1] * 31


def test_greedy_never_says_the_unknown_word():
    """H35."""
    table = memoryless_table(2, pad=0.01, start=0.01, end=0.04, unknown=0.9, a=0.04)
    table[..., A] += 0.1
    constraints = Constraints(END, 5, forbidden=FORBIDDEN, minimum_length=2)
    found = greedy(TransitionTable(table), start=torch.full((2,), START), constraints=constraints)
    assert [each.words for [each] in found] == [(A,) * 5] * 2
