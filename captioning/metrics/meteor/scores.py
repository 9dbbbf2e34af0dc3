"""The METEOR score of alignments (Denkowski and Lavie, 2014), with the parameters of version 1.5 for English.

With matches weighted by stage and by content or function word, relative to the words of the caption (P) and of the
reference (R):

    F = 1 / ((1 - α) / P + α / R)        score = F (1 - γ (chunks / matched words)^β)

A caption's score is that of the reference that it fits best; a corpus has the score of the summed counts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
"""Weight of recall, shape and weight of the penalty for chunks, weight of content words (function words: 1 - δ)."""

STAGE_WEIGHTS = (1.0, 0.6, 0.8, 0.6)
"""Of exact, stem, synonym and paraphrase matches."""


class Side(NamedTuple):
    """Counts (...,) of captions, or of references."""

    words: NDArray[np.float64]
    """Words."""
    function_words: NDArray[np.float64]
    """Those of them that carry no content."""
    content_matches: NDArray[np.float64]
    """(..., 4) matched content words, by stage."""
    function_matches: NDArray[np.float64]
    """(..., 4) matched function words, by stage."""

    @property
    def matches(self) -> NDArray[np.float64]:
        """Matched words."""
        return self.content_matches.sum(-1) + self.function_matches.sum(-1)

    def share(self) -> NDArray[np.float64]:
        """The weighted share of words that are matched: precision, or recall."""
        length = DELTA * (self.words - self.function_words) + (1.0 - DELTA) * self.function_words
        total = np.zeros_like(length)
        for counts, weight in ((self.content_matches, DELTA), (self.function_matches, 1.0 - DELTA)):
            for stage, of_stage in enumerate(STAGE_WEIGHTS):
                total = total + counts[..., stage] * of_stage * weight
        return total / length


class Statistics(NamedTuple):
    """What the score is computed from; the statistics of a corpus are the sums of those of its images."""

    caption: Side
    reference: Side
    chunks: NDArray[np.float64]
    """(...,) runs of matches."""

    def rows(self, chosen: NDArray[np.int64]) -> "Statistics":
        """Those of some pairs."""
        caption, reference = (Side(*(column[chosen] for column in side)) for side in self[:2])
        return Statistics(caption, reference, self.chunks[chosen])

    @property
    def complete(self) -> NDArray[np.bool_]:
        """(...,) whether all words of both match, in one chunk."""
        matched = (self.caption.matches == self.caption.words) & (self.reference.matches == self.reference.words)
        return np.asarray(matched & (self.chunks == 1))

    def sum(self) -> "Statistics":
        """Those of the corpus; the single chunk of a complete match is not counted."""
        caption, reference = (Side(*(column.sum(0) for column in side)) for side in self[:2])
        return Statistics(caption, reference, np.where(self.complete, 0.0, self.chunks).sum(0))


def scores(statistics: Statistics) -> NDArray[np.float64]:
    """The score (...,) of pairs or of their sum, from 0 to 1; 0 where nothing matches or there are no words."""
    caption, reference, chunks = statistics
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = 1.0 / ((1.0 - ALPHA) / caption.share() + ALPHA / reference.share())
        fragmentation = chunks / ((caption.matches + reference.matches) / 2)
        penalty = GAMMA * np.where(statistics.complete, 0.0, fragmentation) ** BETA
        values = mean * (1.0 - penalty)
    return np.nan_to_num(np.maximum(values, 0.0), nan=0.0)
