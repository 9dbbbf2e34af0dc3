"""What happens beside training: averaged weights, a sheet of sample captions, the best model as a file to share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytorch_lightning as pl
import torch
from PIL import Image
from pytorch_lightning.callbacks import Callback, EarlyStopping, WeightAveraging
from torch import Tensor

from captioning.training.module import CaptioningModule
from captioning.viz.page import PageEntry, write_page


class MovingAverage(WeightAveraging):
    """Exponential moving average of the weights: validated, saved and kept instead of the latest weights.

    w̄ ← d w̄ + (1 − d) w with d = min(decay, (1 + n) / (10 + n)) after n updates, so that the first, random weights are
    forgotten soon.
    """

    def __init__(self, decay: float) -> None:
        super().__init__(multi_avg_fn=_averaging(decay))


class Patience(EarlyStopping):
    """Stops after `patience` validations without a better metric; NaN is not better.

    Lightning's own would stop at the first NaN, and train on where a run that had stopped is started again.
    """

    def __init__(self, monitor: str, *, patience: int) -> None:
        super().__init__(monitor, mode="max", patience=patience, check_finite=False)
        self._asked = patience

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """After a checkpoint was read, whose own patience doesn't count."""
        self.patience = self._asked
        trainer.should_stop = self.wait_count >= self.patience


def _averaging(decay: float) -> Callable[[Sequence[Tensor], Sequence[Tensor], Tensor | int], None]:
    @torch.no_grad()
    def average(averages: Sequence[Tensor], latest: Sequence[Tensor], updates: Tensor | int) -> None:
        weight = 1 - min(decay, (1 + int(updates)) / (10 + int(updates)))
        if averages and averages[0].is_floating_point():
            torch._foreach_lerp_(list(averages), list(latest), weight)
        else:  # counters of batch-norm; tensors come grouped by type
            torch._foreach_copy_(list(averages), list(latest))

    return average


@dataclass(frozen=True)
class SamplePicture:
    """A validation picture of the sample sheet."""

    name: str
    """Its id."""
    image: Image.Image
    """Upright RGB."""
    references: tuple[str, ...]
    """What people said of it."""


class SampleSheet(Callback):
    """After each validation, a page of the same pictures with the present captions and maps."""

    def __init__(self, pictures: Sequence[SamplePicture], folder: Path) -> None:
        self.pictures, self.folder = tuple(pictures), folder

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write `epoch_N.html`; the first process only."""
        if trainer.sanity_checking or not trainer.is_global_zero or not self.pictures:
            return
        assert isinstance(pl_module, CaptioningModule)
        captions = pl_module.captioner.caption(
            [picture.image for picture in self.pictures], search=pl_module.validation_search
        )
        entries = [
            PageEntry(
                name=picture.name,
                image=picture.image,
                words=caption.words,
                maps=caption.maps,
                placement=caption.placement,
                log_probabilities=caption.log_probabilities[: len(caption.words)],
                references=picture.references,
            )
            for picture, caption in zip(self.pictures, captions, strict=True)
        ]
        epoch = trainer.current_epoch + 1
        write_page(self.folder / f"epoch_{epoch:03d}.html", entries, title=f"Samples after epoch {epoch}")
