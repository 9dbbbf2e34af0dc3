"""Which images make up each step: batches of captions of like length, fixed by seed and epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch.utils.data import Sampler

from captioning.errors import DataError


@dataclass(frozen=True)
class BatchRequest:
    """What `CaptionDataset` is indexed with: all that the batch depends on, so that workers need no state."""

    images: tuple[int, ...]
    """Indices into the caption set."""
    epoch: int | None = None
    """Seeds what is drawn at random for these images; None: nothing is (evaluation)."""


class TrainingOrder:
    """The place in the order of training batches: what a sampler and a stream have in common."""

    epoch = 0
    _skipped = (0, 0)

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next; without it every epoch has the batches of the first."""
        self.epoch = epoch

    def skip(self, batches: int, *, epoch: int) -> None:
        """Resume in the middle: leave out the first `batches` of `epoch`, which were trained on already."""
        self._skipped = (epoch, batches)

    @property
    def seen(self) -> int:
        """The batches of the present epoch that are left out."""
        epoch, batches = self._skipped
        return batches if epoch == self.epoch else 0


class TrainingSampler(TrainingOrder, Sampler[BatchRequest]):
    """Each image once an epoch, in batches whose longest captions are of like length.

    An epoch shuffles the images, cuts them into windows of `window` steps, sorts each window by length, cuts
    it into steps and shuffles the steps. A step is `batch_size` images on each of `world_size` processes,
    dealt out in turn: N processes with batches of b take the very steps of one process with batches of N * b.
    The last step of an epoch may be smaller; where it is too small to give every process an image, it joins
    the step before, so that no image is dropped or repeated and all processes take equally many steps.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        *,
        batch_size: int,
        seed: int = 0,
        window: int = 50,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if len(lengths) < world_size:
            raise DataError(f"training images: expected one or more a process, got {len(lengths)} for {world_size}")
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.seed = seed
        self.window = window
        self.rank = rank
        self.world_size = world_size

    def __len__(self) -> int:
        """Steps of a whole epoch, the skipped ones included."""
        return len(_cut_steps(self.lengths, self.batch_size * self.world_size, self.world_size))

    def __iter__(self) -> Iterator[BatchRequest]:
        for step in self._shuffled_steps()[self.seen :]:
            yield BatchRequest(_share(step, self.rank, self.world_size), self.epoch)

    def _shuffled_steps(self) -> list[np.ndarray]:
        generator = np.random.default_rng((self.seed, self.epoch))
        size = self.batch_size * self.world_size
        order = generator.permutation(len(self.lengths))
        windows = [order[start : start + self.window * size] for start in range(0, len(order), self.window * size)]
        # Long captions first: a recurrence drops the images at the end of its batch as their captions end.
        by_length = [images[np.argsort(-self.lengths[images], kind="stable")] for images in windows]
        steps = _cut_steps(np.concatenate(by_length), size, self.world_size)
        return [steps[place] for place in generator.permutation(len(steps))]


class EvaluationSampler(Sampler[BatchRequest]):
    """Each image once over all processes, in the order of the set; nothing is drawn at random."""

    def __init__(self, images: int, *, batch_size: int, rank: int = 0, world_size: int = 1) -> None:
        steps = _cut_steps(np.arange(images), batch_size * world_size, world_size)
        shares = [_share(step, rank, world_size) for step in steps]
        self.requests = [BatchRequest(share) for share in shares if share]

    def __len__(self) -> int:
        return len(self.requests)

    def __iter__(self) -> Iterator[BatchRequest]:
        return iter(self.requests)


def _cut_steps(order: np.ndarray, size: int, world_size: int) -> list[np.ndarray]:
    """Steps of `size`; a last one with fewer than `world_size` images joins the one before."""
    starts = list(range(0, len(order), size))
    if len(starts) > 1 and len(order) - starts[-1] < world_size:
        starts.pop()
    return [order[start:end] for start, end in zip(starts, [*starts[1:], len(order)], strict=True)]


def _share(step: np.ndarray, rank: int, world_size: int) -> tuple[int, ...]:
    return tuple(step[rank::world_size].tolist())
