"""BLEU (Papineni et al., 2002) of a whole corpus and of single images, with the COCO scorer's conventions.

BLEU-n is the geometric mean of the clipped precisions of 1- to n-grams, times exp(1 - r / c) where the c
words of the captions are fewer than the r words of the references nearest in length. Of two references
equally near, the shorter counts, so their order has no effect.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from captioning.metrics.ngrams import LONGEST, Compared, Words
from captioning.metrics.word_tree import Integers

TINY, SMALL = 1e-15, 1e-9
"""Added to the counts of matches and of n-grams: no division by zero, and no match is not quite zero."""


def bleu_statistics(compared: Compared) -> Integers:
    """(captions, 10) counts: matches of 1- to 4-grams, n-grams there are, own length, that of the nearest reference.

    An n-gram matches as often as it occurs in the one reference that has it most. The counts add up over
    images: the BLEU of a corpus is the BLEU of the sum.
    """
    own, others = compared.own, compared.others
    rows, other_rows = compared.shared
    most = np.zeros(len(own.times), dtype=np.int64)
    np.maximum.at(most, rows, others.times[other_rows])
    cell = own.caption * LONGEST + compared.counted.sizes[own.ngram] - 1
    matches = np.bincount(cell, np.minimum(own.times, most), minlength=len(own.lengths) * LONGEST)
    ngrams = np.maximum(own.lengths[:, None] - np.arange(LONGEST), 0)
    counts = (matches.reshape(-1, LONGEST), ngrams, own.lengths[:, None], _nearest(compared)[:, None])
    return np.concatenate(counts, axis=1).astype(np.int64)


def _nearest(compared: Compared) -> Integers:
    """(captions,) the length of the reference that is nearest in length; of equally near ones, the shorter."""
    caption, reference = compared.pairs
    length = compared.others.lengths[reference]
    scale = 2 + int(length.max(initial=0))
    distance = np.abs(length - compared.own.lengths[caption]) * scale + length
    return np.asarray(np.minimum.reduceat(distance, compared.first_pair[:-1]) % scale)


def bleu(statistics: ArrayLike, *, brevity_penalty: bool = True) -> NDArray[np.float64]:
    """BLEU-1 to BLEU-4 (..., 4) from `bleu_statistics` (..., 10), for single images or for their sum."""
    counts = np.asarray(statistics, dtype=np.float64)
    precisions = (counts[..., :LONGEST] + TINY) / (counts[..., LONGEST : 2 * LONGEST] + SMALL)
    means = np.cumprod(precisions, axis=-1) ** (1 / np.arange(1, LONGEST + 1))
    if not brevity_penalty:
        return means
    ratio = (counts[..., -2:-1] + TINY) / (counts[..., -1:] + SMALL)
    return means * np.exp(np.minimum(0.0, 1 - 1 / ratio))


def corpus_bleu(
    captions: Sequence[Words], references: Sequence[Sequence[Words]], *, brevity_penalty: bool = True
) -> list[float]:
    """BLEU-1 to BLEU-4 of tokenized captions, each with the tokenized references of its image."""
    statistics = bleu_statistics(Compared.one_each(captions, references))
    return [float(value) for value in bleu(statistics.sum(axis=0), brevity_penalty=brevity_penalty)]
