"""How a search chooses the next words of its open hypotheses: what searches differ in (`loop.py` is the rest)."""

from typing import NamedTuple

import torch
from torch import Tensor

from captioning.decoding.trace import Choice
from captioning.errors import ConfigError


class Open(NamedTuple):
    """The open hypotheses before their next word, K places an image; a total of −∞ is an empty place."""

    images: Tensor
    """(B,) int64: which of the search's images each row is."""
    totals: Tensor
    """(B, K) float32: the sums of their log-probabilities."""
    said: Tensor
    """(B, K, t) int64: their words."""


class Chooser:
    """Base of all: which of the possible continuations become the next hypotheses.

    The places of an image lie in `groups` of equal size, group by group. Each group is a search of its own, in that its
    captions compete among themselves only; up to `width` of them are kept.
    """

    groups: int = 1
    width: int

    def start(self, images: int) -> Tensor:
        """(B, K) the totals before the first word: 0 for a hypothesis that begins here, −∞ for an empty place."""
        return torch.zeros(images, self.groups)

    def choose(self, allowed: Tensor, opened: Open) -> Choice:
        """The next hypotheses, from the log-probabilities `allowed` (B, K, V), −∞ at what may not be said."""
        raise NotImplementedError

    def cut(self, totals: Tensor) -> Tensor:
        """Of open hypotheses' totals (B, K) those that count as captions where the search breaks off; −∞ elsewhere."""
        return totals


class Likeliest(Chooser):
    """Those of largest sum: a beam, and with width 1 greedy search."""

    def __init__(self, width: int) -> None:
        if width < 1:
            raise ConfigError(f"beam_size: expected at least 1, got {width}")
        self.width = width

    def choose(self, allowed: Tensor, opened: Open) -> Choice:
        """As for all."""
        return best_continuations(allowed, opened.totals, self.width)


def best_continuations(log_probabilities: Tensor, totals: Tensor, width: int) -> Choice:
    """The `width` largest of totals[b, k] + log_probabilities[b, k, v]; fewer if there are not so many pairs.

    `log_probabilities` (B, K, V), `totals` (B, K) float32. The best of all pairs lie among the best of each
    hypothesis, so no sum over the whole vocabulary is formed.
    """
    likeliest, words = log_probabilities.topk(min(width, log_probabilities.shape[-1]))  # (B, K, k)
    likeliest = likeliest.float()
    sums = (totals.unsqueeze(-1) + likeliest).flatten(1)  # (B, K * k)
    best, flat = sums.topk(min(width, sums.shape[1]))
    return Choice(
        totals=best,
        log_probabilities=likeliest.flatten(1).gather(1, flat),
        words=words.flatten(1).gather(1, flat),
        parents=flat // words.shape[-1],
    )
