"""What a decoder makes of given captions."""

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from captioning.tensors.packing import PackedWords


class Reading(NamedTuple):
    """One row for each of n real words (the end token is one)."""

    logits: Tensor
    """(n, V) for the word at each position, given the true words before it."""
    weights: Tensor
    """(n, R) where the model looked for it."""
    words: PackedWords
    """Which caption and position each row belongs to."""
    details: Mapping[str, Tensor] = {}
    """What else a decoder reports of a word, by name: (n, ...)."""
