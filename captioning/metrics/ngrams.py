"""Counting the n-grams of many captions at once, which BLEU and CIDEr share."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from captioning.metrics.word_tree import ROOT, Integers, TreeGrower, WordTree

Words = Sequence[str]
"""A tokenized caption."""
LONGEST = 4
"""Both metrics look at n-grams of 1 to 4 words."""


class Counts(NamedTuple):
    """How often each n-gram of 1 to 4 words occurs in each caption: rows (N,), sorted by caption, then by n-gram."""

    lengths: Integers
    """(captions,) words of each caption."""
    caption: Integers
    """(N,) the caption."""
    ngram: Integers
    """(N,) the n-gram, as a node of a tree."""
    times: Integers
    """(N,) how often it occurs there."""

    def before(self, captions: int) -> "Counts":
        """The first captions only."""
        end = int(np.searchsorted(self.caption, captions))
        return Counts(self.lengths[:captions], self.caption[:end], self.ngram[:end], self.times[:end])

    def after(self, captions: int) -> "Counts":
        """All but the first captions, numbered from 0."""
        begin = int(np.searchsorted(self.caption, captions))
        caption = self.caption[begin:] - captions
        return Counts(self.lengths[captions:], caption, self.ngram[begin:], self.times[begin:])


class Counted(NamedTuple):
    """Counts, and what their numbers mean."""

    counts: Counts
    tree: WordTree
    """The n-grams that occur."""
    sizes: NDArray[np.int8]
    """(nodes,) words of each n-gram."""


def count_ngrams(captions: Sequence[Words]) -> Counted:
    """Count the n-grams of tokenized captions."""
    numbers: dict[str, int] = defaultdict(count().__next__)
    words = np.array([numbers[word] for word in chain.from_iterable(captions)], dtype=np.int64)
    lengths = np.fromiter(map(len, captions), np.int64, len(captions))
    caption = np.repeat(np.arange(len(captions)), lengths)
    rest = np.cumsum(lengths)[caption] - np.arange(len(words))  # words from here to the caption's end
    grower = TreeGrower(dict(numbers))
    places = np.arange(len(words))
    nodes = np.full(len(words), ROOT)
    keys, sizes = [], [1]
    every = 1 + LONGEST * len(words)  # more than there can be nodes
    for size in range(LONGEST):
        inside = rest[places] > size
        places, nodes = places[inside], nodes[inside]
        nodes = grower.grow(nodes, words[places + size])
        keys.append(caption[places] * every + nodes)
        sizes.append(int(nodes.max(initial=sizes[-1] - 1)) + 1)
    rows, times = np.unique(np.concatenate(keys), return_counts=True)
    of_node = np.repeat(np.arange(LONGEST + 1, dtype=np.int8), np.diff([0, *sizes]))
    return Counted(Counts(lengths, *np.divmod(rows, every), times), grower.tree(), of_node)


@dataclass(frozen=True)
class Compared:
    """Captions beside the references of their images."""

    captions: Sequence[Words]
    """Tokenized captions."""
    images: Integers
    """(captions,) the image of each; an image may have several."""
    references: Sequence[Sequence[Words]]
    """(images,) the tokenized references of each, at least one."""

    @classmethod
    def one_each(cls, captions: Sequence[Words], references: Sequence[Sequence[Words]]) -> "Compared":
        """One caption for each image."""
        return cls(captions, np.arange(len(captions)), references)

    @cached_property
    def counted(self) -> Counted:
        """The n-grams of captions, then of references."""
        return count_ngrams([*self.captions, *chain.from_iterable(self.references)])

    @cached_property
    def own(self) -> Counts:
        """The captions' part of it."""
        return self.counted.counts.before(len(self.captions))

    @cached_property
    def others(self) -> Counts:
        """The references' part of it."""
        return self.counted.counts.after(len(self.captions))

    @cached_property
    def many(self) -> Integers:
        """(images,) how many references each has."""
        return np.fromiter(map(len, self.references), np.int64, len(self.references))

    @cached_property
    def first_reference(self) -> Integers:
        """(images,) the number of each image's first reference."""
        return np.cumsum(self.many) - self.many

    @cached_property
    def image_of_reference(self) -> Integers:
        """(references,) the image of each."""
        return np.repeat(np.arange(len(self.references)), self.many)

    @cached_property
    def first_pair(self) -> Integers:
        """(captions + 1,) the number of each caption's first pair, and in the end how many pairs there are."""
        return np.append(0, np.cumsum(self.many[self.images]))

    @cached_property
    def pairs(self) -> tuple[Integers, Integers]:
        """Caption and reference of all pairs, caption by caption."""
        caption = np.repeat(np.arange(len(self.captions)), np.diff(self.first_pair))
        number = np.arange(len(caption)) - self.first_pair[caption]
        return caption, self.first_reference[self.images[caption]] + number

    @cached_property
    def shared(self) -> tuple[Integers, Integers]:
        """The rows of `own` and of `others` that have an n-gram in common, within an image."""
        nodes = self.counted.tree.nodes
        keys = self.images[self.own.caption] * nodes + self.own.ngram
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        wanted = self.image_of_reference[self.others.caption] * nodes + self.others.ngram
        first = np.searchsorted(keys, wanted)
        times = np.searchsorted(keys, wanted, side="right") - first
        other = np.repeat(np.arange(len(wanted)), times)
        own = order[np.repeat(first - np.cumsum(times) + times, times) + np.arange(len(other))]
        return own, other
