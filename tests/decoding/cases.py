"""The searches and the constraints that the tests of decoding go through, over tables of few words."""

import torch
from torch import Tensor

from captioning.decoding.constraints import Constraints
from captioning.decoding.methods import search_captions
from captioning.decoding.search import Search
from captioning.decoding.step import Hypothesis, Step
from tests.oracles.transition_table import TransitionTable

PAD, START, END, UNKNOWN, A, B, C = range(7)
FORBIDDEN = (PAD, START, UNKNOWN)

SEARCHES = {
    "greedy": Search(method="greedy", ranking="wu"),
    "beam": Search(beam_size=3, ranking="average"),
    "diverse": Search(method="diverse", beam_size=6, groups=3, diversity=0.7, ranking="none"),
    "sampling": Search(method="sampling", samples=5, temperature=1.3, top_k=4, top_p=0.95),
}

CONSTRAINTS = {
    "none": {},
    "minimum length": {"minimum_length": 3},
    "banned word": {"forbidden": (*FORBIDDEN, B)},
    "no word twice": {"no_repeat_ngram": 1},
    "no two words twice": {"no_repeat_ngram": 2},
    "no dangling end": {"dangling": (A, C)},
    "beginning": {"beginning": (B, B)},
    "one word": {"must_include": (B,)},
    "two words": {"must_include": (C, A)},
    "masks together": {
        "minimum_length": 2,
        "no_repeat_ngram": 2,
        "dangling": (A,),
        "beginning": (C,),
    },
    "all together": {
        "minimum_length": 2,
        "no_repeat_ngram": 1,
        "dangling": (C,),
        "beginning": (B,),
        "must_include": (A,),
    },
}


def wanted(name: str, longest: int) -> Constraints:
    return Constraints(END, longest, **{"forbidden": FORBIDDEN, **CONSTRAINTS[name]})


def combinations() -> list[tuple[str, str]]:
    """Every search with every constraint that it takes."""
    return [
        (search, name)
        for search in SEARCHES
        for name, constraints in CONSTRAINTS.items()
        if search != "sampling" or "must_include" not in constraints
    ]


def found_by(search: str, table: Tensor, constraints: Constraints, step: Step | None = None) -> list[list[Hypothesis]]:
    """What this search finds in the table; what is drawn is drawn with seed 3."""
    torch.manual_seed(3)
    start = torch.full((len(table),), START)
    return search_captions(
        step or TransitionTable(table), start=start, constraints=constraints, search=SEARCHES[search]
    )


def summary(hypotheses: list[Hypothesis]) -> list[tuple[bool, tuple[int, ...]]]:
    return [(each.finished, each.words) for each in hypotheses]
