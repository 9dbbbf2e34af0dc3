"""All ways in which words of a caption may match words of a reference: exact, stem, synonym and paraphrase."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from captioning.metrics.meteor.phrases import Phrases, find_phrases
from captioning.metrics.meteor.tables import Tables
from captioning.metrics.meteor.words import Words

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
"""The stages, in the order in which they are tried."""

Places = dict[str, list[tuple[int, int]]]
"""Word -> the pairs, and the places in their references, where it stands."""

_STAGE = 1 << 56
_BACKWARD = PARAPHRASE + 1  # paraphrases of the caption's phrases come after those of the reference's


@dataclass(frozen=True)
class Pairs:
    """Captions, each to be aligned with all references of its image."""

    captions: Sequence[list[str]]
    """The words of each image's caption."""
    references: Sequence[Sequence[list[str]]]
    """The words of each image's references; pairs are numbered in this order."""


class Matches(NamedTuple):
    """Possible matches (N,), sorted by pair, then by place in the reference, then as METEOR tries them."""

    pair: NDArray[np.int64]
    """Which pair of caption and reference."""
    start: NDArray[np.int64]
    """First word in the reference."""
    length: NDArray[np.int64]
    """Words of the reference."""
    own_start: NDArray[np.int64]
    """First word in the caption."""
    own_length: NDArray[np.int64]
    """Words of the caption."""
    stage: NDArray[np.int64]
    """EXACT, STEM, SYNONYM or PARAPHRASE."""


def find_matches(pairs: Pairs, tables: Tables, words: Words) -> Matches:
    """All matches of all pairs; where caption and reference are equal, the exact ones only."""
    related = _Related({word for caption in pairs.captions for word in caption}, _all_words(pairs), words)
    phrases = find_phrases(pairs.captions, [words for image in pairs.references for words in image], tables)
    rows: list[int] = []
    first = 0
    for image, (own, references) in enumerate(zip(pairs.captions, pairs.references, strict=True)):
        others = dict(enumerate(references, start=first))
        first += len(others)
        places = _places(others)
        _match_exactly(rows, own, places)
        unequal = {pair: other for pair, other in others.items() if other != own}
        _match_related(rows, own, places if len(unequal) == len(others) else _places(unequal), related)
        _match_phrases(rows, image, unequal, phrases)
    return _sorted(rows)


def _all_words(pairs: Pairs) -> set[str]:
    return {word for image in pairs.references for words in image for word in words}


class _Related:
    """For each of some words, those of others that share its stem, and those that share a set of synonyms."""

    def __init__(self, own: Iterable[str], others: Iterable[str], words: Words) -> None:
        stems: dict[str, set[str]] = {}
        synsets: dict[str, set[str]] = {}
        for other in others:
            stems.setdefault(words.stem(other), set()).add(other)
            for synset in words.synsets(other):
                synsets.setdefault(synset, set()).add(other)
        self.by_stage: dict[int, dict[str, set[str]]] = {
            STEM: {word: stems.get(words.stem(word), set()) - {word} for word in own},
            SYNONYM: {
                word: set().union(*(synsets.get(synset, ()) for synset in words.synsets(word))) - {word} for word in own
            },
        }


def _places(captions: Mapping[int, Sequence[str]]) -> Places:
    places: Places = defaultdict(list)
    for pair, words in captions.items():
        for start, word in enumerate(words):
            places[word].append((pair, start))
    return places


def _match_exactly(rows: list[int], own: Sequence[str], places: Places) -> None:
    for own_start, word in enumerate(own):
        for pair, start in places.get(word, ()):
            rows.extend((pair, start, 1, own_start, 1, own_start))


def _match_related(rows: list[int], own: Sequence[str], places: Places, related: _Related) -> None:
    for stage, of_stage in related.by_stage.items():
        for own_start, word in enumerate(own):
            if candidates := of_stage[word]:
                order = stage * _STAGE + own_start
                for other in candidates & places.keys():
                    for pair, start in places[other]:
                        rows.extend((pair, start, 1, own_start, 1, order))


def _match_phrases(rows: list[int], image: int, others: Iterable[int], phrases: Phrases) -> None:
    """Paraphrases of the references' phrases by length, then by the table; then those of the caption's."""
    places: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for pair in others:
        for node, start, length in phrases.in_references[pair]:
            places[node].append((pair, start, length))
    for own_node, own_start, own_length in phrases.in_captions[image]:
        for node in phrases.paraphrased_as[own_node].keys() & places.keys():
            rank = phrases.paraphrased_as[own_node][node]
            for pair, start, length in places[node]:
                order = PARAPHRASE * _STAGE + (length << 48) + (rank << 20) + own_start
                rows.extend((pair, start, length, own_start, own_length, order))
        for node in phrases.paraphrases[own_node].keys() & places.keys():
            rank = phrases.paraphrases[own_node][node]
            order = _BACKWARD * _STAGE + (own_start << 36) + (own_length << 28) + rank
            for pair, start, length in places[node]:
                rows.extend((pair, start, length, own_start, own_length, order))


def _sorted(rows: list[int]) -> Matches:
    pair, start, length, own_start, own_length, order = np.array(rows, dtype=np.int64).reshape(-1, 6).T
    places = np.lexsort((order, start, pair))
    stage = np.minimum(order // _STAGE, PARAPHRASE)
    return Matches(*(column[places] for column in (pair, start, length, own_start, own_length, stage)))
