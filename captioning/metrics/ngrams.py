"""Counting n-grams, which BLEU and CIDEr share."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

Ngram = tuple[str, ...]
LONGEST = 4
"""Both metrics look at n-grams of 1 to 4 words."""


@dataclass(frozen=True, slots=True)
class CountedCaption:
    """A tokenized caption and its n-grams, counted once for all metrics."""

    words: Sequence[str]
    """The caption's words."""
    ngrams: Counter[Ngram]
    """How often each n-gram of 1 to 4 words occurs."""


def count_ngrams(caption: Sequence[str] | CountedCaption) -> CountedCaption:
    """Counts the n-grams of a tokenized caption, unless that is done already."""
    if isinstance(caption, CountedCaption):
        return caption
    shifted = [caption[start:] for start in range(LONGEST)]
    ngrams = chain.from_iterable(zip(*shifted[:n], strict=False) for n in range(1, LONGEST + 1))
    return CountedCaption(caption, Counter(ngrams))
