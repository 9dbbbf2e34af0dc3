"""CIDEr-D and plain CIDEr (Vedantam, Zitnick and Parikh, 2015), on tokenized captions.

A caption becomes, for each n from 1 to 4, a vector g_n of its n-grams: count times log(documents / documents
that have the n-gram), a document being all references of one image. Each reference's r_n is compared with it:

    CIDEr-D:  10 / 4  exp(-(l - l_r)² / (2 sigma²))  sum over n of  min(g_n, r_n) . r_n / (|g_n| |r_n|)
    plain:    10 / 4  sum over n of  g_n . r_n / (|g_n| |r_n|)

with l and l_r their lengths; the mean over the references is its score, from 0 to 10. CIDEr-D with sigma 6 is
what the COCO scorer prints as "CIDEr". Neither stems words.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from captioning.metrics.frequencies import DocumentFrequencies
from captioning.metrics.ngrams import LONGEST, Compared, Counts, Words

SCALE = 10.0
"""A caption equal to all its references scores 10; papers print 100 times the value."""


class Cider:
    """What CIDEr-D and plain CIDEr share."""

    clip: ClassVar[bool]
    sigma: ClassVar[float]

    def __init__(
        self, references: Mapping[Any, Sequence[Words]], *, frequencies: DocumentFrequencies | None = None
    ) -> None:
        """`references`: image -> tokenized captions; `frequencies`: counted from them unless given.

        For a reward that teaches to end captions well, give all captions, also those that the frequencies are
        counted from, an end word of their own.
        """
        self.references = references
        self.frequencies = frequencies or DocumentFrequencies.of(list(references.values()))

    def score(self, captions: Mapping[Any, Words]) -> dict[Any, float]:
        """The score of each image's tokenized caption; the corpus has their mean."""
        return dict(zip(captions, self.score_many(list(captions), list(captions.values())).tolist(), strict=True))

    def score_one(self, image: Hashable, caption: Words) -> float:
        """The score of one tokenized caption against the references of `image`."""
        return float(self.score_many([image], [caption])[0])

    def score_many(self, images: Sequence[Hashable], captions: Sequence[Words]) -> NDArray[np.float64]:
        """(captions,) the scores of tokenized captions, each with its image; an image may come several times.

        As a reward of sampled captions it takes a few milliseconds for hundreds of them.
        """
        places = {image: place for place, image in enumerate(dict.fromkeys(images))}
        numbers = np.fromiter((places[image] for image in images), np.int64, len(images))
        compared = Compared(captions, numbers, [self.references[image] for image in places])
        return self.of(compared, self.frequencies)

    @classmethod
    def of(cls, compared: Compared, frequencies: DocumentFrequencies) -> NDArray[np.float64]:
        """(captions,) the scores of captions that stand beside their references."""
        caption, reference = compared.pairs
        weights = frequencies.weights_of(compared.counted.tree)
        own, others = (counts.times * weights[counts.ngram] for counts in (compared.own, compared.others))
        norms = np.sqrt(_sums(compared, compared.own, own**2))[caption]
        norms = norms * np.sqrt(_sums(compared, compared.others, others**2))[reference]
        products = cls._products(compared, own, others)
        cosines = np.divide(products, norms, out=np.zeros_like(products), where=products != 0).sum(axis=1)
        gaps = compared.own.lengths[caption] - compared.others.lengths[reference]
        similar = cosines * np.exp(-(gaps**2) / (2 * cls.sigma**2))
        totals = np.bincount(caption, similar, minlength=len(compared.captions))
        return np.asarray(SCALE * totals / (LONGEST * compared.many[compared.images]))

    @classmethod
    def _products(
        cls, compared: Compared, own: NDArray[np.float64], others: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """(pairs, 4) the products of the vectors of each caption and each of its references."""
        rows, other_rows = compared.shared
        mine, theirs = own[rows], others[other_rows]
        caption = compared.own.caption[rows]
        number = compared.others.caption[other_rows] - compared.first_reference[compared.images[caption]]
        pair = compared.first_pair[caption] + number
        cell = pair * LONGEST + compared.counted.sizes[compared.own.ngram[rows]] - 1
        product = (np.minimum(mine, theirs) if cls.clip else mine) * theirs
        sums = np.bincount(cell, product, minlength=int(compared.first_pair[-1]) * LONGEST)
        return sums.astype(np.float64).reshape(-1, LONGEST)


def _sums(compared: Compared, counts: Counts, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(captions, 4) sums over each caption's n-grams of 1, 2, 3 and 4 words."""
    cell = counts.caption * LONGEST + compared.counted.sizes[counts.ngram] - 1
    sums = np.bincount(cell, values, minlength=len(counts.lengths) * LONGEST)
    return sums.astype(np.float64).reshape(-1, LONGEST)


class CiderD(Cider):
    """CIDEr-D: weights clipped at the reference's, other lengths punished by a Gaussian of sigma 6 words."""

    clip = True
    sigma = 6.0


class CiderPlain(Cider):
    """CIDEr without clipping, without length penalty and without stemming, on the scale of 0 to 10."""

    clip = False
    sigma = math.inf
