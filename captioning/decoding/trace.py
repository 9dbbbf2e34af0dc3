"""The choices of a search, kept as they were made and followed backwards once, at the end."""

from typing import NamedTuple

import torch
from torch import Tensor


class Choice(NamedTuple):
    """What one step chose for the images still searched: `width` continuations of K open hypotheses each."""

    totals: Tensor
    """(B, width) float32 log-probability of the whole hypothesis, best first; −∞: an empty place."""
    log_probabilities: Tensor
    """(B, width) float32, of the chosen word alone."""
    words: Tensor
    """(B, width) int64."""
    parents: Tensor
    """(B, width) int64: which of the K hypotheses each one continues."""


class Paths(NamedTuple):
    """N hypotheses from their first choice on; what lies after a path's last step is 0."""

    words: Tensor
    """(N, T) int64."""
    log_probabilities: Tensor
    """(N, T) float32."""
    weights: Tensor
    """(N, T, R) the weights with which each word was chosen."""


class Trace:
    """Back-pointers: a search adds a step's choice, and no hypothesis is copied when beams split or die."""

    def __init__(self) -> None:
        self._steps: list[tuple[Tensor, Choice, Tensor]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def append(self, rows: Tensor, choice: Choice, weights: Tensor) -> None:
        """`rows` (all images): each image's row in this step; `weights` (B, K, R) are the parents'."""
        self._steps.append((rows, choice, weights))

    def backtrack(self, images: Tensor, last: Tensor, places: Tensor) -> Paths:
        """The paths of `images` (N,) ending at step `last` (N,) in `places` (N,); last = −1: empty."""
        weights_like = self._steps[0][2]
        words = places.new_zeros(len(images), len(self))
        log_probabilities = weights_like.new_zeros(words.shape, dtype=torch.float32)
        weights = weights_like.new_zeros(*words.shape, weights_like.shape[-1])
        places = places.clone()
        for time in reversed(range(len(self))):
            rows, choice, step_weights = self._steps[time]
            paths = (last >= time).nonzero().squeeze(1)
            row, place = rows[images[paths]], places[paths]
            parents = choice.parents[row, place]
            words[paths, time] = choice.words[row, place]
            log_probabilities[paths, time] = choice.log_probabilities[row, place]
            weights[paths, time] = step_weights[row, parents]
            places[paths] = parents
        return Paths(words, log_probabilities, weights)
