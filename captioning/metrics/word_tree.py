"""Phrases as the nodes of a tree of words, in sorted arrays that many phrases are looked up in at once."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

ROOT = 0
UNKNOWN = -1
"""Stands for a word, or for a node, that is not there."""


@dataclass(frozen=True)
class WordTree:
    """The edge from node `n` by word `w` has the number n * words + w. Edges are sorted; that in place i leads to
    node i + 1. Node 0 is the root, and phrases of fewer words have the smaller numbers."""

    words: Mapping[str, int]
    """Word -> number, from 0 without gaps."""
    edges: Integers
    """All edges."""

    @property
    def nodes(self) -> int:
        """Nodes, the root included."""
        return len(self.edges) + 1

    def follow(self, nodes: Integers, words: Integers) -> Integers:
        """The nodes (N,) a word further; UNKNOWN where the tree has none, or where node or word are UNKNOWN."""
        wanted = nodes * len(self.words) + words
        places = np.minimum(np.searchsorted(self.edges, wanted), len(self.edges) - 1)
        found = (nodes >= ROOT) & (words >= 0)
        if len(self.edges):
            found &= self.edges[places] == wanted
        else:
            found[:] = False
        return np.where(found, places + 1, UNKNOWN)

    def node(self, phrase: tuple[str, ...]) -> int:
        """The node of one phrase, or UNKNOWN."""
        nodes = np.array([ROOT])
        for word in phrase:
            nodes = self.follow(nodes, np.array([self.words.get(word, UNKNOWN)]))
        return int(nodes[0])

    def nodes_in(self, other: "WordTree") -> Integers:
        """(nodes,) for each node of this tree the node of the same phrase in another one, or UNKNOWN."""
        words = np.array([other.words.get(word, UNKNOWN) for word in self.words], dtype=np.int64)
        found = np.full(self.nodes, UNKNOWN)
        found[ROOT] = ROOT
        parents, last = np.divmod(self.edges, max(len(self.words), 1))
        begin = 0
        while begin < len(self.edges):  # a level at a time: parents have smaller numbers than all their children
            end = int(np.searchsorted(parents, begin + 1))
            level = slice(begin, end)
            found[begin + 1 : end + 1] = other.follow(found[parents[level]], words[last[level]])
            begin = end
        return found


class TreeGrower:
    """Grows a tree a level at a time, from the root outwards."""

    def __init__(self, words: Mapping[str, int]) -> None:
        self._words = words
        self._levels: list[Integers] = []
        self._nodes = 1

    def grow(self, nodes: Integers, words: Integers) -> Integers:
        """The nodes (N,) that lie a word further than nodes of the level before; equal ones are one."""
        level, places = np.unique(nodes * len(self._words) + words, return_inverse=True)
        self._levels.append(level)
        self._nodes += len(level)
        return np.asarray(self._nodes - len(level) + places)

    def tree(self) -> WordTree:
        """The grown tree."""
        return WordTree(self._words, np.concatenate([np.zeros(0, dtype=np.int64), *self._levels]))
