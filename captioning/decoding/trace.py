"""The choices of a search, kept as they were made and followed backwards once, at the end."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

WEIGHTS = "weights"
"""Under this name a step's attention weights are kept, beside its other details."""


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
    reported: dict[str, Tensor]
    """(N, T, ...) what the model reported of the choice of each word."""


class Trace:
    """Back-pointers: a search adds a step's choice, and no hypothesis is copied when beams split or die."""

    def __init__(self) -> None:
        self._steps: list[tuple[Tensor, Choice, Mapping[str, Tensor]]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def append(self, rows: Tensor, choice: Choice, reported: Mapping[str, Tensor]) -> None:
        """`rows` (all images): each image's row in this step; what is `reported`, (B, K, ...), is the parents'."""
        self._steps.append((rows, choice, reported))

    def backtrack(self, images: Tensor, last: Tensor, places: Tensor) -> Paths:
        """The paths of `images` (N,) ending at step `last` (N,) in `places` (N,); last = −1: empty."""
        words = places.new_zeros(len(images), len(self))
        log_probabilities = torch.zeros(words.shape, device=words.device)
        reported = {name: like.new_zeros(*words.shape, *like.shape[2:]) for name, like in self._steps[0][2].items()}
        places = places.clone()
        for time in reversed(range(len(self))):
            rows, choice, step_reported = self._steps[time]
            paths = (last >= time).nonzero().squeeze(1)
            row, place = rows[images[paths]], places[paths]
            parents = choice.parents[row, place]
            words[paths, time] = choice.words[row, place]
            log_probabilities[paths, time] = choice.log_probabilities[row, place]
            for name, values in reported.items():
                values[paths, time] = step_reported[name][row, parents]
            places[paths] = parents
        return Paths(words, log_probabilities, reported)
