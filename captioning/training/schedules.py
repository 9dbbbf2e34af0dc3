"""Schedules of what is drawn: how often mixed attention is hard, and how soft straight-through Gumbel's gradient is.

Both act in training only, so a model that is loaded needs neither. They are functions of the step alone: a resumed run
goes on with the values of an unbroken one.
"""

from dataclasses import dataclass

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback

from captioning.attention import Attention
from captioning.attention.selection import Gumbel, Hard, Mixed
from captioning.errors import ConfigError
from captioning.training.module import CaptioningModule


@dataclass(frozen=True)
class SelectionSettings:
    """From which value to which, over how many epochs; an end of None: it stays."""

    hard_share: float = 0.5
    """mixed: the probability that a picture is read with sampled regions."""
    hard_share_end: float | None = None
    """The last one; the change is linear."""
    shared_coin: bool = False
    """mixed: one coin for all pictures of a step."""
    glimpses: int = 1
    """hard, mixed: how many regions are drawn for a word; their mean is what the decoder sees."""
    gumbel_temperature: float = 1.0
    """gumbel: the temperature of the relaxed choice that the gradient takes."""
    gumbel_temperature_end: float | None = None
    """The last one; the change is geometric."""
    start: float = 0.0
    """Epochs before anything moves."""
    epochs: float = 5.0
    """Epochs from then on until the last value is reached."""

    def __post_init__(self) -> None:
        for name in ("hard_share", "hard_share_end"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ConfigError(f"objective.{name}: expected a probability from 0 to 1, got {value}")
        for name in ("gumbel_temperature", "gumbel_temperature_end"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"objective.{name}: expected a number > 0, got {value}")
        if self.glimpses < 1:
            raise ConfigError(f"objective.glimpses: expected at least 1, got {self.glimpses}")
        if not self.start >= 0:
            raise ConfigError(f"objective.selection_start: expected a number ≥ 0, got {self.start}")
        if not self.epochs > 0:
            raise ConfigError(f"objective.selection_epochs: expected a number > 0, got {self.epochs}")

    def progress(self, epoch: float) -> float:
        """s, from 0 to 1, after so many epochs (and parts of one)."""
        return min(1.0, max(0.0, (epoch - self.start) / self.epochs))

    def hard_share_at(self, progress: float) -> float:
        """p = p₀ + s (p₁ − p₀), s from 0 to 1."""
        end = self.hard_share if self.hard_share_end is None else self.hard_share_end
        return self.hard_share + progress * (end - self.hard_share)

    def gumbel_temperature_at(self, progress: float) -> float:
        """τ = τ₀ (τ₁ / τ₀)^s."""
        end = self.gumbel_temperature if self.gumbel_temperature_end is None else self.gumbel_temperature_end
        return float(self.gumbel_temperature * (end / self.gumbel_temperature) ** progress)


class SelectionSchedule(Callback):
    """Sets the selection's values before each step."""

    def __init__(self, settings: SelectionSettings) -> None:
        self.settings = settings

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *batch: object) -> None:
        """By the optimizer steps done so far."""
        assert isinstance(pl_module, CaptioningModule)
        attention = getattr(pl_module.captioner.decoder, "attention", None)
        if not isinstance(attention, Attention):
            return
        steps = trainer.num_training_batches / trainer.accumulate_grad_batches
        progress = self.settings.progress(trainer.global_step / max(steps, 1.0))
        selection = attention.selection
        if isinstance(selection, (Hard, Mixed)):
            selection.glimpses = self.settings.glimpses
        if isinstance(selection, Mixed):
            selection.probability = self.settings.hard_share_at(progress)
            selection.shared = self.settings.shared_coin
        if isinstance(selection, Gumbel):
            selection.temperature = self.settings.gumbel_temperature_at(progress)
