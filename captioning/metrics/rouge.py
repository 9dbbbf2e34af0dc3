"""ROUGE-L (Lin, 2004) with the COCO scorer's conventions: best precision and best recall over references."""

from collections.abc import Sequence

BETA = 1.2
"""How much more recall weighs than precision."""


def common_subsequences(first: Sequence[str], others: Sequence[Sequence[str]]) -> list[int]:
    """Words of the longest subsequence that `first` shares with each of the others, one step a word of theirs.

    Bit-parallel: bit i of `rows` is 0 where the table of lengths grows at word i of `first`.
    """
    places: dict[str, int] = {}
    for index, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << index
    every = (1 << len(first)) - 1
    lengths = []
    for words in others:
        rows = every
        for word in words:
            if word in places:
                matched = rows & places[word]
                rows = (rows + matched) | (rows - matched)
        lengths.append(len(first) - (rows & every).bit_count())
    return lengths


def rouge_l(hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """(1 + b²) P R / (R + b² P), b = 1.2, from the longest common subsequence with each reference.

    P and R are the best over the references, each on its own. Without words, or with none in common, it is 0.
    """
    lengths = common_subsequences(hypothesis, references)
    longest = max(lengths, default=0)
    if longest == 0:
        return 0.0
    precision = longest / len(hypothesis)
    recall = max(length / len(words) for length, words in zip(lengths, references, strict=True) if words)
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)
