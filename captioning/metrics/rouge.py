"""ROUGE-L (Lin, 2004) with the COCO scorer's conventions: best precision and best recall over references."""

from collections.abc import Sequence

BETA = 1.2
"""How much more recall weighs than precision."""


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Words of the longest subsequence that both have, one step a word of `second`.

    Bit-parallel: bit i of `rows` is 0 where the table of lengths grows at word i of `first`.
    """
    places: dict[str, int] = {}
    for index, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << index
    every = (1 << len(first)) - 1
    rows = every
    for word in second:
        matched = rows & places.get(word, 0)
        rows = ((rows + matched) | (rows - matched)) & every
    return len(first) - rows.bit_count()


def rouge_l(hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """(1 + b²) P R / (R + b² P), b = 1.2, from the longest common subsequence with each reference.

    P and R are the best over the references, each on its own. Without words, or with none in common, it is 0.
    """
    lengths = [(longest_common_subsequence(hypothesis, words), len(words)) for words in references if words]
    longest = max((length for length, _ in lengths), default=0)
    if longest == 0:
        return 0.0
    precision = longest / len(hypothesis)
    recall = max(length / words for length, words in lengths)
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)
