"""The best captions that each image has so far, among those that ended or were cut off."""

import torch
from torch import Tensor

from captioning.decoding.step import Hypothesis
from captioning.decoding.trace import WEIGHTS, Trace


class Finalists:
    """Up to `width` captions in each group of an image, best first; those that ended before those that were cut off.

    A caption is known by where it lies in the search's trace: the step and the place of its last choice.
    """

    def __init__(self, images: int, groups: int, width: int, device: torch.device) -> None:
        shape = (images, groups, width)
        self.scores = torch.full(shape, -torch.inf, device=device)
        self._finished = torch.zeros(shape, dtype=torch.bool, device=device)
        self._last = torch.zeros(shape, dtype=torch.int64, device=device)
        self._places = torch.zeros(shape, dtype=torch.int64, device=device)

    def add(self, images: Tensor, scores: Tensor, *, last: int, finished: bool) -> None:
        """Enter the captions in all places of step `last`, with `scores` (N, K); −∞: no caption there."""
        groups, width = self.scores.shape[1:]
        places = torch.arange(scores.shape[1], device=scores.device).expand_as(scores).unflatten(1, (groups, -1))
        scores = scores.unflatten(1, (groups, -1))
        everything = (
            torch.cat([self.scores[images], scores], -1),
            torch.cat([self._finished[images], (scores > -torch.inf) & finished], -1),
            torch.cat([self._last[images], torch.full_like(places, last)], -1),
            torch.cat([self._places[images], places], -1),
        )
        by_score = everything[0].argsort(dim=-1, descending=True, stable=True)
        ended = everything[1].gather(-1, by_score).to(torch.uint8)
        order = by_score.gather(-1, ended.argsort(dim=-1, descending=True, stable=True))[..., :width]
        for kept, entries in zip((self.scores, self._finished, self._last, self._places), everything, strict=True):
            kept[images] = entries.gather(-1, order)

    def worst(self, images: Tensor) -> Tensor:
        """(N, groups) the score in the last place; −∞ while it is empty."""
        return self.scores[images, :, -1]

    def hypotheses(self, trace: Trace) -> list[list[Hypothesis]]:
        """For each image the captions of all its groups, best first."""
        images, groups, ranks = (self.scores > -torch.inf).nonzero(as_tuple=True)
        places = self._places[images, groups, ranks]
        last, finished = self._last[images, groups, ranks], self._finished[images, groups, ranks]
        scores = self.scores[images, groups, ranks].tolist()
        words, log_probabilities, reported = trace.backtrack(images, last, places)
        result: list[list[Hypothesis]] = [[] for _ in range(len(self.scores))]
        for path, (image, score, time, ended) in enumerate(
            zip(images.tolist(), scores, last.tolist(), finished.tolist(), strict=True)
        ):
            length = time + 1 - ended
            of_words = {name: values[path, :length].clone() for name, values in reported.items()}
            hypothesis = Hypothesis(
                words=tuple(words[path, :length].tolist()),
                log_probabilities=tuple(log_probabilities[path, : time + 1].tolist()),
                score=score,
                finished=ended,
                weights=of_words.pop(WEIGHTS),
                details=of_words,
            )
            result[image].append(hypothesis)
        for captions in result:
            captions.sort(key=lambda caption: (caption.finished, caption.score), reverse=True)
        return result
