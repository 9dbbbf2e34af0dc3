"""Several captioners as one: their probabilities averaged at every step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from captioning.decoding.step import Step, StepOutput
from captioning.decoding.trace import WEIGHTS


def of_member(number: int, name: str) -> str:
    """What member `number` (from 0) reports as `name` stands under this name among an ensemble's details."""
    return f"{number}/{name}"


@dataclass(frozen=True)
class EnsembleStep:
    """log p(v) = log (1/N Σ_i p_i(v)): a `Step` over the steps of N members, so that every search can have it.

    Its state is the tuple of theirs. Regions may differ in number, so the weights are those of the first member, and
    the weights and details of each stand among the details under the names that `of_member` gives.
    """

    steps: Sequence[Step[Any]]
    """Of the same images, over the same words."""

    def start(self) -> tuple[Any, ...]:
        """Each member's."""
        return tuple(step.start() for step in self.steps)

    def advance(self, state: tuple[Any, ...], words: Tensor) -> StepOutput[tuple[Any, ...]]:
        """Every member reads the same words."""
        read = [step.advance(own, words) for step, own in zip(self.steps, state, strict=True)]
        together = torch.stack([each.log_probabilities.float() for each in read])
        details = {
            of_member(number, name): values
            for number, each in enumerate(read)
            for name, values in {WEIGHTS: each.weights, **each.details}.items()
        }
        log_probabilities = together.logsumexp(0) - math.log(len(self.steps))
        return StepOutput(tuple(each.state for each in read), log_probabilities, read[0].weights, details)

    def reorder(self, state: tuple[Any, ...], parents: Tensor) -> tuple[Any, ...]:
        """Every member's hypotheses alike."""
        return tuple(step.reorder(own, parents) for step, own in zip(self.steps, state, strict=True))

    def select(self, state: tuple[Any, ...], images: Tensor) -> tuple[Any, ...]:
        """Every member's images alike."""
        return tuple(step.select(own, images) for step, own in zip(self.steps, state, strict=True))
