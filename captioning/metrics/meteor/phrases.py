"""Where phrases of the paraphrase table stand in captions, and which of them are paraphrases of one another."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from captioning.metrics.meteor.tables import Tables
from captioning.metrics.word_tree import ROOT, UNKNOWN

Found = list[tuple[int, int, int]]
"""The phrases of a caption: node, first word, number of words."""
Ranked = dict[int, dict[int, int]]
"""Node -> the nodes that belong to it -> their place in the table."""


class Phrases(NamedTuple):
    """What the paraphrase table says of captions and their references; phrases without a counterpart are left out."""

    in_captions: list[Found]
    """The phrases of each caption."""
    in_references: list[Found]
    """The phrases of each reference."""
    paraphrases: Ranked
    """A caption's phrase -> its paraphrases that some reference has."""
    paraphrased_as: Ranked
    """A caption's phrase -> the references' phrases that it is a paraphrase of."""


class _Occurrences(NamedTuple):
    text: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    node: NDArray[np.int64]

    def having(self, chosen: NDArray[np.bool_]) -> "_Occurrences":
        return _Occurrences(*(column[chosen] for column in self))

    def by_text(self, count: int) -> list[Found]:
        ends = np.cumsum(np.bincount(self.text, minlength=count))
        rows = list(zip(self.node.tolist(), self.start.tolist(), self.length.tolist(), strict=True))
        return [rows[begin:end] for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]


def find_phrases(captions: Sequence[Sequence[str]], references: Sequence[Sequence[str]], tables: Tables) -> Phrases:
    """Look all captions and references up at once."""
    nodes = tables.tree.nodes
    own, others = _occurrences(captions, tables), _occurrences(references, tables)
    in_own, in_others = np.zeros((2, nodes), dtype=bool)
    in_own[own.node] = True
    in_others[others.node] = True
    forward = _relation(tables, in_own, in_others)
    backward = _relation(tables, in_others, in_own)
    useful_own, useful_others = np.zeros((2, nodes), dtype=bool)
    useful_own[np.append(forward[0], backward[1])] = True
    useful_others[np.append(forward[1], backward[0])] = True
    return Phrases(
        own.having(useful_own[own.node]).by_text(len(captions)),
        others.having(useful_others[others.node]).by_text(len(references)),
        _ranked(*forward, np.flatnonzero(useful_own)),
        _ranked(backward[1], backward[0], backward[2], np.flatnonzero(useful_own)),
    )


def _occurrences(captions: Sequence[Sequence[str]], tables: Tables) -> _Occurrences:
    """All phrases of the table, sorted by caption: the tree is walked from all words at once."""
    lengths = np.fromiter(map(len, captions), np.int64, len(captions))
    flat = [tables.tree.words.get(word, UNKNOWN) for word in chain.from_iterable(captions)]
    words = np.array(flat, dtype=np.int64)
    text = np.repeat(np.arange(len(captions)), lengths)
    ends = np.cumsum(lengths)[text]
    places = np.arange(len(flat))
    nodes = np.full(len(flat), ROOT)
    found = []
    length = 0
    while len(places):
        nodes = tables.tree.follow(nodes, words[places + length])
        length += 1
        alive = nodes >= 0
        places, nodes = places[alive], nodes[alive]
        found.append((places, np.full(len(places), length), nodes))
        inside = places + length < ends[places]
        places, nodes = places[inside], nodes[inside]
    at, size, node = (np.concatenate(column) for column in zip(*found, strict=True)) if found else np.zeros((3, 0), int)
    order = np.lexsort((size, at))
    at = at[order]
    starts = at - (ends - lengths[text])[at]
    return _Occurrences(text[at], starts, size[order], node[order])


def _relation(
    tables: Tables, keys: NDArray[np.bool_], partners: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Key, paraphrase and place in the table of all entries whose two sides are among the given nodes."""
    rows = np.flatnonzero(keys[tables.keys])
    begins = tables.starts[rows].astype(np.int64)
    counts = tables.starts[rows + 1] - begins
    ranks = np.repeat(begins - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    others = tables.partners[ranks]
    chosen = partners[others]
    sides = np.repeat(tables.keys[rows], counts)[chosen]
    return sides.astype(np.int64), others[chosen].astype(np.int64), ranks[chosen]


def _ranked(
    nodes: NDArray[np.int64], others: NDArray[np.int64], ranks: NDArray[np.int64], all_nodes: NDArray[np.int64]
) -> Ranked:
    ranked: Ranked = {node: {} for node in all_nodes.tolist()}
    for node, other, rank in zip(nodes.tolist(), others.tolist(), ranks.tolist(), strict=True):
        ranked[node][other] = rank
    return ranked
