"""METEOR 1.5 (Denkowski and Lavie, 2014) for English captions, as the COCO scorer runs its Java program."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from captioning.metrics.meteor.alignment import align
from captioning.metrics.meteor.matches import Matches, Pairs, find_matches
from captioning.metrics.meteor.scores import COUNTS, STAGE_WEIGHTS, scores
from captioning.metrics.meteor.tables import Tables, open_tables
from captioning.metrics.meteor.words import Words

BATCH = 1000
"""Images that are aligned at once."""


class Meteor:
    """Compares captions with references; what it learns of words is kept for the next call."""

    def __init__(self, tables: Tables | None = None) -> None:
        """`tables`: the index of METEOR's word lists; None: that of the installed package. Raises DataError."""
        self._tables = tables or open_tables()
        self._words = Words(self._tables)

    def counts(
        self, captions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
    ) -> NDArray[np.float64]:
        """(images, `COUNTS`) of tokenized captions, each with the tokenized references of its image, at least one.

        They are those with the reference that a caption fits best. `scores` makes scores of them; the score of a
        corpus is that of their sum.
        """
        cut = [self._cut(words) for words in captions]
        others = [[self._cut(words) for words in image] for image in references]
        parts = [
            self._best(Pairs(cut[start : start + BATCH], others[start : start + BATCH]))
            for start in range(0, len(cut), BATCH)
        ]
        return np.concatenate([np.zeros((0, COUNTS)), *parts])

    def _cut(self, words: Sequence[str]) -> list[str]:
        return self._words.cut(" ".join(words))

    def _best(self, pairs: Pairs) -> NDArray[np.float64]:
        """Of each image, the counts with the reference of the highest score; of equal ones, the first."""
        many = np.array([len(image) for image in pairs.references])
        counts = self._counts(pairs, many)
        values = scores(counts)
        image = np.repeat(np.arange(len(many)), many)
        highest = np.flatnonzero(values == np.maximum.reduceat(values, np.cumsum(many) - many)[image])
        _, firsts = np.unique(image[highest], return_index=True)
        return counts[highest[firsts]]

    def _counts(self, pairs: Pairs, many: NDArray[np.int64]) -> NDArray[np.float64]:
        matches = find_matches(pairs, self._tables, self._words)
        own = self._function_words(pairs.captions).repeated(many)
        others = self._function_words(chain.from_iterable(pairs.references))
        found = align(matches, own.lengths, others.lengths)
        taken = Matches(*(column[found.taken] for column in matches))
        sides = (
            _side(own, taken, taken.own_start, taken.own_length),
            _side(others, taken, taken.start, taken.length),
        )
        complete = [side[:, 2:].sum(1) == side[:, 0] for side in sides]
        chunks = np.where(complete[0] & complete[1] & (found.chunks == 1), 0, found.chunks)
        return np.column_stack([*sides, chunks])

    def _function_words(self, captions: Iterable[Sequence[str]]) -> "_FunctionWords":
        captions = list(captions)
        known = self._words.function_words
        flags = np.fromiter((word in known for words in captions for word in words), dtype=bool)
        lengths = np.fromiter(map(len, captions), np.int64, len(captions))
        return _FunctionWords(flags, np.cumsum(lengths) - lengths, lengths)


class _FunctionWords(NamedTuple):
    """Which words of captions carry no content."""

    flags: NDArray[np.bool_]
    """Of all words of all captions in a row."""
    begins: NDArray[np.int64]
    """Where each caption begins."""
    lengths: NDArray[np.int64]

    def repeated(self, times: NDArray[np.int64]) -> "_FunctionWords":
        """Each caption as often as told."""
        return _FunctionWords(self.flags, np.repeat(self.begins, times), np.repeat(self.lengths, times))


def _side(
    words: _FunctionWords, taken: Matches, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(pairs, `SIDE`) the counts of one side."""
    before = np.append(0, np.cumsum(words.flags))
    places = words.begins[taken.pair] + starts
    function = before[places + lengths] - before[places]
    shape = (len(words.lengths), len(STAGE_WEIGHTS))
    cell = taken.pair * shape[1] + taken.stage
    by_kind = [
        np.bincount(cell, counts, minlength=shape[0] * shape[1]).reshape(shape)
        for counts in (lengths - function, function)
    ]
    in_all = before[words.begins + words.lengths] - before[words.begins]
    return np.column_stack([words.lengths, in_all, *by_kind]).astype(np.float64)
