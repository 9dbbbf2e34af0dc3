"""METEOR 1.5 (Denkowski and Lavie, 2014) for English captions, as the COCO scorer runs its Java program."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from captioning.metrics.meteor.alignment import Alignments, align
from captioning.metrics.meteor.matches import Matches, Pairs, find_matches
from captioning.metrics.meteor.scores import STAGE_WEIGHTS, Side, Statistics, scores
from captioning.metrics.meteor.tables import Tables, open_tables
from captioning.metrics.meteor.words import Words

BATCH = 1000
"""Images that are aligned at once."""


class Scored(NamedTuple):
    """The METEOR of captions."""

    corpus: float
    """Of all captions together: from summed counts, not the mean over images."""
    images: NDArray[np.float64]
    """(images,) of each caption, with the reference that it fits best."""
    statistics: Statistics
    """(images,) what both are computed from."""


class Meteor:
    """Scores captions; what it learns of words is kept for the next call."""

    def __init__(self, tables: Tables | None = None) -> None:
        """`tables`: the index of METEOR's word lists; None: that of the installed package. Raises DataError."""
        self._tables = tables or open_tables()
        self._words = Words(self._tables)

    def score(self, captions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> Scored:
        """Tokenized captions, each with the tokenized references of its image, of which there is at least one."""
        cut = [self._cut(words) for words in captions]
        others = [[self._cut(words) for words in image] for image in references]
        parts = [
            self._best(Pairs(cut[start : start + BATCH], others[start : start + BATCH]))
            for start in range(0, len(cut), BATCH)
        ]
        statistics = _joined(parts)
        return Scored(float(scores(statistics.sum())), scores(statistics), statistics)

    def _cut(self, words: Sequence[str]) -> list[str]:
        return self._words.cut(" ".join(words))

    def _best(self, pairs: Pairs) -> Statistics:
        """Of each image, the statistics with the reference of the highest score; of equal ones, the first."""
        counts = np.array([len(image) for image in pairs.references])
        statistics = self._statistics(pairs, counts)
        values = scores(statistics)
        begins = np.cumsum(counts) - counts
        image = np.repeat(np.arange(len(counts)), counts)
        highest = np.flatnonzero(values == np.maximum.reduceat(values, begins)[image])
        _, firsts = np.unique(image[highest], return_index=True)
        return statistics.rows(highest[firsts])

    def _statistics(self, pairs: Pairs, counts: NDArray[np.int64]) -> Statistics:
        matches = find_matches(pairs, self._tables, self._words)
        own = self._function_words(pairs.captions).repeated(counts)
        others = self._function_words(chain.from_iterable(pairs.references))
        found = align(matches, own.lengths, others.lengths)
        return Statistics(
            _side(own, matches, found, matches.own_start, matches.own_length),
            _side(others, matches, found, matches.start, matches.length),
            found.chunks.astype(np.float64),
        )

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

    def repeated(self, counts: NDArray[np.int64]) -> "_FunctionWords":
        """Each caption `counts` times."""
        return _FunctionWords(self.flags, np.repeat(self.begins, counts), np.repeat(self.lengths, counts))


def _side(
    words: _FunctionWords,
    matches: Matches,
    found: Alignments,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> Side:
    """The counts of one side of all pairs."""
    pair, start, length = (column[found.taken] for column in (matches.pair, starts, lengths))
    before = np.append(0, np.cumsum(words.flags))
    places = words.begins[pair] + start
    function = before[places + length] - before[places]
    shape = (len(words.lengths), len(STAGE_WEIGHTS))
    cell = pair * shape[1] + matches.stage[found.taken]
    content_matches, function_matches = (
        np.bincount(cell, counts, minlength=shape[0] * shape[1]).astype(np.float64).reshape(shape)
        for counts in (length - function, function)
    )
    in_all = (before[words.begins + words.lengths] - before[words.begins]).astype(np.float64)
    return Side(words.lengths.astype(np.float64), in_all, content_matches, function_matches)


def _joined(parts: Sequence[Statistics]) -> Statistics:
    def join(sides: Iterable[Side]) -> Side:
        return Side(*map(np.concatenate, zip(*sides, strict=True)))

    chunks = np.concatenate([part.chunks for part in parts])
    return Statistics(join(part.caption for part in parts), join(part.reference for part in parts), chunks)
