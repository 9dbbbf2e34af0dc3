"""ROUGE-L (Lin, 2004) with the COCO scorer's conventions: best precision and best recall over references."""

import re
from collections.abc import Sequence

BETA = 1.2
"""How much more recall weighs than precision."""
_NUMBER, _FRACTION = re.compile(r"\d{1,4}"), re.compile(r"\d{1,4}/\d{1,4}")


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
    hypothesis, references = with_mixed_fractions(hypothesis), [with_mixed_fractions(words) for words in references]
    lengths = common_subsequences(hypothesis, references)
    longest = max(lengths, default=0)
    if longest == 0:
        return 0.0
    precision = longest / len(hypothesis)
    recall = max(length / len(words) for length, words in zip(lengths, references, strict=True) if words)
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def with_mixed_fractions(words: Sequence[str]) -> Sequence[str]:
    """The same words, a number and a fraction after it ("22 3/4") as one.

    The COCO scorer's tokenizer joins them by a no-break space, at which its other metrics cut again, ROUGE-L not.
    """
    if not any("/" in word for word in words):
        return words
    joined: list[str] = []
    for word in words:
        if joined and _FRACTION.fullmatch(word) and _NUMBER.fullmatch(joined[-1]):
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return joined
