"""The METEOR score of alignments (Denkowski and Lavie, 2014), with the parameters of version 1.5 for English.

With matches weighted by stage and by content or function word, relative to the words of the caption (P) and of the
reference (R):

    F = 1 / ((1 - α) / P + α / R)        score = F (1 - γ (chunks / matched words)^β)

A caption's score is that of the reference that it fits best; a corpus has the score of the summed counts.
"""

import numpy as np
from numpy.typing import NDArray

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
"""Weight of recall, shape and weight of the penalty for chunks, weight of content words (function words: 1 - δ)."""

STAGE_WEIGHTS = (1.0, 0.6, 0.8, 0.6)
"""Of exact, stem, synonym and paraphrase matches."""


SIDE = 2 + 2 * len(STAGE_WEIGHTS)
"""Counts of captions, and as many of references: their words, those without content (function words), matched content
words by stage, matched function words by stage."""

COUNTS = 2 * SIDE + 1
"""The last is the number of chunks: runs of matches that follow one another on both sides."""


def scores(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The score (...,) from 0 to 1 of counts (..., `COUNTS`) of pairs or of their sum; 0 where nothing matches.

    In the counts of a pair whose words all match in one chunk, that chunk is left out: it is no fragment.
    """
    caption, reference, chunks = counts[..., :SIDE], counts[..., SIDE : 2 * SIDE], counts[..., -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = 1.0 / ((1.0 - ALPHA) / _share(caption) + ALPHA / _share(reference))
        fragmentation = chunks / ((caption[..., 2:].sum(-1) + reference[..., 2:].sum(-1)) / 2)
        values = mean * (1.0 - GAMMA * fragmentation**BETA)
    return np.nan_to_num(np.maximum(values, 0.0), nan=0.0)


def _share(side: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weighted share of words that are matched: precision, or recall."""
    words, function_words = side[..., 0], side[..., 1]
    length = DELTA * (words - function_words) + (1.0 - DELTA) * function_words
    weights = [stage * kind for kind in (DELTA, 1.0 - DELTA) for stage in STAGE_WEIGHTS]
    return sum(side[..., 2 + place] * weight for place, weight in enumerate(weights)) / length
