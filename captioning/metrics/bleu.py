"""BLEU (Papineni et al., 2002) of a whole corpus and of single images, with the COCO scorer's conventions.

BLEU-n is the geometric mean of the clipped precisions of 1- to n-grams, times exp(1 - r / c) where the c
words of the captions are fewer than the r words of the references nearest in length. Of two references
equally near, the shorter counts, so their order has no effect.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from captioning.metrics.ngrams import LONGEST, CountedCaption, count_ngrams

TINY, SMALL = 1e-15, 1e-9
"""Added to the counts of matches and of n-grams: no division by zero, and no match is not quite zero."""


def bleu_statistics(caption: CountedCaption, references: Sequence[CountedCaption]) -> list[int]:
    """10 counts: matches of 1- to 4-grams, n-grams there are, the caption's length, the nearest reference's.

    An n-gram matches as often as it occurs in the one reference that has it most. The counts add up over
    images: the BLEU of a corpus is the BLEU of the sum.
    """
    matches = [0] * LONGEST
    others = [reference.ngrams for reference in references]
    for ngram, count in caption.ngrams.items():
        most = max([other.get(ngram, 0) for other in others])
        matches[len(ngram) - 1] += min(count, most)
    length = len(caption.words)
    ngrams = [max(0, length - n) for n in range(LONGEST)]
    _, nearest = min((abs(len(other.words) - length), len(other.words)) for other in references)
    return [*matches, *ngrams, length, nearest]


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
    captions: Sequence[Sequence[str]],
    references: Sequence[Sequence[Sequence[str]]],
    *,
    brevity_penalty: bool = True,
) -> list[float]:
    """BLEU-1 to BLEU-4 of tokenized captions, each with the tokenized references of its image."""
    rows = [
        bleu_statistics(count_ngrams(words), [count_ngrams(other) for other in others])
        for words, others in zip(captions, references, strict=True)
    ]
    return [float(value) for value in bleu(np.sum(rows, axis=0), brevity_penalty=brevity_penalty)]
