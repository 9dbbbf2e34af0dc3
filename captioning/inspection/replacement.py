"""What maps are worth to a model: the loss of its captions when other maps stand in the place of its own.

    uniform   every cell the same weight (of a model that shows the largest weight alone: one cell drawn at random)
    mean      the mean map of all words of all images
    shuffled  the map that another image's caption has at the same position
    frozen    the map of the caption's first word, at all its words

Each takes one thing away: uniform all that maps know, mean what differs between images and words, shuffled the image,
frozen the word. What a model says with foreign maps is no captioner that anyone trained: a difference says how far
this model relies on its maps, not how well one would do that was trained without them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from captioning.data.batch import CaptionBatch
from captioning.decoders.given_maps import read_with_maps
from captioning.inspection.averages import Average, average
from captioning.inspection.subject import Progress, Subject, Words, features_of, log_probabilities

OWN, UNIFORM, MEAN, SHUFFLED, FROZEN = "own", "uniform", "mean", "shuffled", "frozen"
REPLACED = (UNIFORM, MEAN, SHUFFLED, FROZEN)


@dataclass(frozen=True)
class Replacement:
    """Nats a word (END is one), with own and with other maps."""

    loss: Mapping[str, Average]
    """By kind, `own` first."""
    rise: Mapping[str, Average]
    """By kind: the loss with these maps minus the loss with the model's own, word by word."""
    words: int


def replace_maps(subject: Subject, words: Words, *, seed: int, progress: Progress | None = None) -> Replacement:
    """Read all captions once for each kind."""
    generator = np.random.default_rng(seed)
    losses = {OWN: -words.log_probability}
    for done, kind in enumerate(REPLACED, start=1):
        choose_looks = chooser(kind, words, generator, one_cell=subject.search.test_time_rule == "argmax")
        losses[kind] = -np.concatenate(list(_reread(subject, choose_looks)))
        if progress is not None:
            progress(done, len(REPLACED))
    return Replacement(
        {kind: average(loss, words.image) for kind, loss in losses.items()},
        {kind: average(losses[kind] - losses[OWN], words.image) for kind in REPLACED},
        len(words),
    )


def chooser(kind: str, words: Words, generator: np.random.Generator, *, one_cell: bool = False) -> "Chooser":
    """What gives the looks (m, L, R) of words `rows`. `one_cell`: instead of a uniform map, one cell at random."""
    if kind == MEAN:
        return partial(_repeated, words.looks[torch.from_numpy(~words.is_end)].mean(0))
    if kind == SHUFFLED:
        return partial(_of_rows, words.looks, donors(words, generator))
    if kind == FROZEN:
        return partial(_of_rows, words.looks, first_words(words))
    if one_cell:
        return partial(_random_cells, words.looks.shape[1:], generator)
    return partial(_repeated, torch.full(words.looks.shape[1:], 1 / words.looks.shape[2]))


Chooser = partial[Tensor]


def donors(words: Words, generator: np.random.Generator) -> np.ndarray:
    """(n,) for each word one drawn among those of other images at its position, or at the last before it that another
    image has. Needs two images."""
    rows = np.empty(len(words), dtype=np.int64)
    for position in range(int(words.position.max()) + 1):
        asking = np.flatnonzero(words.position == position)
        waiting, place = asking, position
        while len(waiting):
            there = np.flatnonzero(words.position == place)
            rows[waiting] = there[generator.integers(len(there), size=len(waiting))]
            own = words.image[rows[waiting]] == words.image[waiting]
            waiting = waiting[own]
            if len(np.unique(words.image[there])) == 1 and len(waiting):
                place -= 1
    return rows


def first_words(words: Words) -> np.ndarray:
    """(n,) the row of the first word of each word's caption."""
    first = np.full(words.caption.max() + 1, -1)
    starts = np.flatnonzero(words.position == 0)
    first[words.caption[starts]] = starts
    return first[words.caption]


def _repeated(look: Tensor, rows: slice) -> Tensor:
    return look.expand(rows.stop - rows.start, *look.shape)


def _of_rows(looks: Tensor, chosen: np.ndarray, rows: slice) -> Tensor:
    return looks[torch.from_numpy(chosen[rows])]


def _random_cells(shape: torch.Size, generator: np.random.Generator, rows: slice) -> Tensor:
    cells = generator.integers(shape[-1], size=(rows.stop - rows.start, *shape[:-1]))
    return torch.nn.functional.one_hot(torch.from_numpy(cells), shape[-1]).float()


def _reread(subject: Subject, looks: Chooser) -> Iterator[np.ndarray]:
    start = 0
    for batch in subject.batches:
        rows = slice(start, start + int(batch.is_word.sum()))
        yield _log_probabilities(subject, batch, looks(rows).to(subject.captioner.device))
        start = rows.stop


def _log_probabilities(subject: Subject, batch: CaptionBatch, looks: Tensor) -> np.ndarray:
    with subject.reading() as decoder:
        reading = read_with_maps(decoder, features_of(batch), batch.inputs, batch.is_word, looks)
    return log_probabilities(reading.logits, reading.words.pack(batch.targets))
