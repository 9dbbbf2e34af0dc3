"""CIDEr-D and plain CIDEr (Vedantam, Zitnick and Parikh, 2015), on tokenized captions.

A caption becomes, for each n from 1 to 4, a vector g_n of its n-grams: count times log(documents / documents
that have the n-gram), a document being all references of one image. Each reference's r_n is compared with it:

    CIDEr-D:  10 / 4  exp(-(l - l_r)² / (2 sigma²))  sum over n of  min(g_n, r_n) . r_n / (|g_n| |r_n|)
    plain:    10 / 4  sum over n of  g_n . r_n / (|g_n| |r_n|)

with l and l_r their lengths; the mean over the references is its score, from 0 to 10. CIDEr-D with sigma 6 is
what the COCO scorer prints as "CIDEr". Neither stems words.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from captioning.errors import DataError
from captioning.metrics.ngrams import LONGEST, CountedCaption, Ngram, count_ngrams

Caption = Sequence[str] | CountedCaption
"""The words of a caption, or these with their n-grams counted."""

SCALE = 10.0
"""A caption equal to all its references scores 10; papers print 100 times the value."""


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many images' references each n-gram occurs."""

    counts: Mapping[Ngram, int]
    """N-gram -> images with a reference that has it."""
    documents: int
    """Images counted, at least 2: with one image every n-gram would weigh nothing."""

    def __post_init__(self) -> None:
        if self.documents < 2:
            raise DataError(
                "document frequencies: expected the references of at least 2 images, got those of "
                f"{self.documents}: they are undefined; give those of a larger set, such as the training set"
            )

    @classmethod
    def of(cls, references: Iterable[Iterable[Caption]]) -> "DocumentFrequencies":
        """Counts over images, each given as its tokenized references."""
        counts: Counter[Ngram] = Counter()
        documents = 0
        for captions in references:
            counts.update(set().union(*(count_ngrams(caption).ngrams for caption in captions)))
            documents += 1
        return cls(counts, documents)

    @cached_property
    def weights(self) -> dict[Ngram, float]:
        """N-gram -> log(documents / documents that have it)."""
        most = self.weight_of_unknown
        return {ngram: most - math.log(max(1, count)) for ngram, count in self.counts.items()}

    @property
    def weight_of_unknown(self) -> float:
        """The weight of an n-gram that no document has: as if one had it."""
        return math.log(self.documents)

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON; the words of an n-gram are joined by spaces."""
        counts = {" ".join(ngram): count for ngram, count in self.counts.items()}
        return {"documents": self.documents, "counts": counts}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "DocumentFrequencies":
        """The frequencies that `to_dict` wrote."""
        counts = {tuple(text.split(" ")): int(count) for text, count in stored["counts"].items()}
        return cls(counts, int(stored["documents"]))


class Vector(NamedTuple):
    """A caption as weights of its n-grams."""

    weights: dict[Ngram, float]
    """N-gram -> count times weight."""
    norms: list[float]
    """Euclidean norm of the part of 1-, 2-, 3- and 4-grams."""
    length: int
    """Words of the caption."""


def vector(caption: Caption, frequencies: DocumentFrequencies) -> Vector:
    """The caption's n-gram counts times the n-grams' weights."""
    counted = count_ngrams(caption)
    known, unknown = frequencies.weights, frequencies.weight_of_unknown
    weights = {}
    squares = [0.0] * LONGEST
    for ngram, count in counted.ngrams.items():
        weights[ngram] = weight = count * known.get(ngram, unknown)
        squares[len(ngram) - 1] += weight * weight
    return Vector(weights, [math.sqrt(square) for square in squares], len(counted.words))


def similarity(caption: Vector, reference: Vector, *, clip: bool, sigma: float) -> float:
    """The sum over n of the cosines of one caption and one reference, times the penalty of other lengths."""
    products = [0.0] * LONGEST
    for ngram in caption.weights.keys() & reference.weights.keys():
        mine, other = caption.weights[ngram], reference.weights[ngram]
        products[len(ngram) - 1] += (min(mine, other) if clip else mine) * other
    cosines = 0.0
    for product, mine, other in zip(products, caption.norms, reference.norms, strict=True):
        if product:
            cosines += product / (mine * other)
    return cosines * math.exp(-((caption.length - reference.length) ** 2) / (2 * sigma**2))


class Cider:
    """What CIDEr-D and plain CIDEr share; the references of the latest `keep` images stay as vectors."""

    clip: ClassVar[bool]
    sigma: ClassVar[float]

    def __init__(
        self,
        references: Mapping[Any, Sequence[Caption]],
        *,
        frequencies: DocumentFrequencies | None = None,
        keep: int = 10_000,
    ) -> None:
        """`references`: image -> tokenized captions; `frequencies`: counted from them unless given.

        For a reward that teaches to end captions well, give all captions, also those that the frequencies are
        counted from, an end word of their own.
        """
        self.references = references
        self.frequencies = frequencies or DocumentFrequencies.of(references.values())
        self._keep = keep
        self._kept: dict[Any, list[Vector]] = {}

    def score(self, captions: Mapping[Any, Caption]) -> dict[Any, float]:
        """The score of each image's tokenized caption; the corpus has their mean."""
        return {image: self.score_one(image, caption) for image, caption in captions.items()}

    def score_one(self, image: Hashable, caption: Caption) -> float:
        """The score of one tokenized caption against the references of `image`."""
        mine = vector(caption, self.frequencies)
        others = self._reference_vectors(image)
        total = sum(similarity(mine, other, clip=self.clip, sigma=self.sigma) for other in others)
        return SCALE * total / (LONGEST * len(others))

    def _reference_vectors(self, image: Hashable) -> list[Vector]:
        if image not in self._kept:
            if len(self._kept) >= self._keep:
                del self._kept[next(iter(self._kept))]  # the oldest
            self._kept[image] = [vector(caption, self.frequencies) for caption in self.references[image]]
        return self._kept[image]


class CiderD(Cider):
    """CIDEr-D: weights clipped at the reference's, other lengths punished by a Gaussian of sigma 6 words."""

    clip = True
    sigma = 6.0


class CiderPlain(Cider):
    """CIDEr without clipping, without length penalty and without stemming, on the scale of 0 to 10."""

    clip = False
    sigma = math.inf
