"""The checkpoints of a run: the newest to go on from, and the best by the watched metric."""

import logging
import math
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Checkpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO

from captioning.training.checkpoint_files import BEST, LAST, read_checkpoint, write_checkpoint

_log = logging.getLogger(__name__)


class WholeFiles(TorchCheckpointIO):
    """How Lightning writes and reads checkpoints: whole or absent, checked, and without running code in them."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Raises DiskError, and leaves the earlier file."""
        write_checkpoint(checkpoint, Path(path))

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Raises CheckpointError."""
        return read_checkpoint(Path(path))


class RunCheckpoints(Checkpoint):
    """Writes `last.ckpt` and `best.ckpt`; from either a run goes on as if it had never stopped.

    `last` is written after every epoch, once everything that an epoch changes has changed (schedules, early stopping,
    the best), after every `every_n_steps` optimizer steps, and when a step limit ends the run within an epoch. `best`
    is written after an epoch whose validation has the highest metric so far; NaN is never that.
    """

    def __init__(self, folder: Path, *, monitor: str, every_n_steps: int | None = None) -> None:
        self.folder, self.monitor, self.every_n_steps = folder, monitor, every_n_steps
        self.best_score = -math.inf
        self.best_epoch: int | None = None
        self._validated = False

    @property
    def best_path(self) -> Path | None:
        """The best checkpoint; the last one if no epoch was validated, and None before any."""
        path = self.folder / (LAST if self.best_epoch is None else BEST)
        return path if path.is_file() else None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin a new epoch where the checkpoint lies between two; with a step limit Lightning would end the last."""
        progress = trainer.fit_loop.epoch_progress.current
        if progress.completed == progress.ready:
            trainer.fit_loop.epoch_loop.restarting = False

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Within an epoch. The last batch has its turn with the epoch."""
        step = trainer.global_step
        stepped = (batch_idx + 1) % trainer.accumulate_grad_batches == 0
        due = step == trainer.max_steps or (self.every_n_steps is not None and step % self.every_n_steps == 0)
        if stepped and due and not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            trainer.save_checkpoint(self.folder / LAST)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note that there is a new value to look at."""
        self._validated = not trainer.sanity_checking

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """After a whole epoch."""
        if not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            return  # a step limit ended it, and `last` is where it stopped
        if self._validated and self._is_best(trainer):
            trainer.save_checkpoint(self.folder / BEST)
        self._validated = False
        trainer.save_checkpoint(self.folder / LAST)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """After a whole epoch, say that it is complete: Lightning notes that a moment after callbacks are asked."""
        progress = checkpoint["loops"]["fit_loop"]["epoch_progress"]
        for counts in (progress["total"], progress["current"]):
            counts["completed"] = counts["processed"]

    def state_dict(self) -> dict[str, Any]:
        """What the next epochs are compared with."""
        return {"best_score": self.best_score, "best_epoch": self.best_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The inverse of `state_dict`; in another folder than the best one's there is no best yet."""
        if (self.folder / BEST).is_file():
            self.best_score, self.best_epoch = state_dict["best_score"], state_dict["best_epoch"]

    def _is_best(self, trainer: pl.Trainer) -> bool:
        value = float(trainer.callback_metrics[self.monitor])
        epoch = trainer.current_epoch + 1
        if math.isnan(value):
            _log.warning("epoch %d: %s is not a number (n/a), so it is not the best", epoch, self.monitor)
            return False
        if value <= self.best_score and self.best_epoch is not None:
            return False
        self.best_score, self.best_epoch = value, epoch
        return True
