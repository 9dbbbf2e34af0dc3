"""A step function by table, and every caption that it allows, by enumeration."""

import itertools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from captioning.decoding.step import StepOutput


class TableState(NamedTuple):
    images: Tensor
    """(B,) rows of the table."""
    history: Tensor
    """(B, K, t) the words read so far: what a recurrent state would have to remember."""


class TransitionTable:
    """log p(next | image, word before the latest, latest word) from a table (B, V, V, V).

    Two words back is more than the search hands over at a step, so a state that does not follow its
    hypothesis shows. The weights are the words read so far, padded with −1 to `regions`: each row tells whose
    it is.
    """

    def __init__(self, log_probabilities: Tensor, regions: int = 11) -> None:
        self.table = log_probabilities
        self.regions = regions
        self.batches: list[int] = []

    def start(self) -> TableState:
        images = len(self.table)
        return TableState(torch.arange(images), torch.zeros(images, 1, 0, dtype=torch.int64))

    def advance(self, state: TableState, words: Tensor) -> StepOutput[TableState]:
        self.batches.append(len(words))
        history = torch.cat([state.history, words.unsqueeze(-1)], -1)
        before = history[..., -2] if history.shape[-1] > 1 else words
        weights = torch.full((*words.shape, self.regions), -1.0)
        weights[..., : history.shape[-1]] = history.float()
        log_probabilities = self.table[state.images[:, None], before, words]
        return StepOutput(TableState(state.images, history), log_probabilities, weights)

    def reorder(self, state: TableState, parents: Tensor) -> TableState:
        return TableState(state.images, state.history[torch.arange(len(parents))[:, None], parents])

    def select(self, state: TableState, images: Tensor) -> TableState:
        return TableState(state.images[images], state.history[images])


def memoryless_table(images: int, **probabilities: float) -> Tensor:
    """(B, V, V, V) with the same next-word probabilities everywhere, in the order given."""
    row = torch.tensor(list(probabilities.values()))
    return row.log().expand(images, *[len(row)] * 3).clone()


def random_table(images: int, words: int, seed: int, sharpness: float = 1.5) -> Tensor:
    """(B, V, V, V) log-probabilities of a random second-order chain."""
    generator = torch.Generator().manual_seed(seed)
    return (sharpness * torch.randn(images, *[words] * 3, generator=generator)).log_softmax(-1)


def rescore(table: Tensor, image: int, start: int, choices: tuple[int, ...]) -> list[float]:
    """Teacher forcing: the log-probability of each choice, read off the table."""
    read = (start, start, *choices)
    return [table[image, read[t], read[t + 1], word].item() for t, word in enumerate(choices)]


def every_caption(
    table: Tensor, image: int, *, start: int, end: int, forbidden: tuple[int, ...], longest: int
) -> dict[tuple[int, ...], float]:
    """All ended captions of at most `longest` choices (END being one), with their log-probabilities."""
    words = [word for word in range(table.shape[-1]) if word not in (*forbidden, end)]
    captions = {}
    for length in range(longest):
        for prefix in itertools.product(words, repeat=length):
            captions[prefix] = math.fsum(rescore(table, image, start, (*prefix, end)))
    return captions
