"""Alarms: what training looks at while it runs, and when it stops by itself.

Captions hide a broken attention: a model whose maps are even, or whose scores never get a gradient, still says likely
sentences. So the log keeps, beside the loss, what the maps are like.
"""

import logging
from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor, nn

from captioning.attention import Attention
from captioning.decoders.reading import Reading
from captioning.errors import TrainingError

_log = logging.getLogger(__name__)

REWARD = "reward"
"""Under this name an objective reports the mean reward of a batch."""
STEPS_WITHOUT_GRADIENT = 20
"""So many steps in a row, in which no score gets any gradient, are no accident."""
DECAY = 0.98
"""Of the running mean of rewards: about 50 steps."""


@torch.no_grad()
def describe_maps(reading: Reading) -> dict[str, Tensor]:
    """Of a batch's real words, END included, without waiting for the device.

    entropy: −Σ a log a, in nats. effective_cells: its exponential, from 1 (one cell) to R (an even map). map_change:
    ½ Σ |a_t − a_{t−1}|, the weight that moves from a word to the next. map_distance: ½ Σ |a_t − mean a|, from 0 (the
    same map for all words of all pictures) to 1.
    """
    maps = reading.weights.float()
    entropy = -torch.special.xlogy(maps, maps).sum(-1)
    by_place = reading.words.unpack(maps)
    exists = reading.words.unpack(torch.ones_like(maps[:, 0], dtype=torch.bool))
    follows = exists[:, :, 1:]
    changes = (by_place[:, :, 1:] - by_place[:, :, :-1]).abs().sum(-1)[follows] / 2
    return {
        "entropy": entropy.mean(),
        "effective_cells": entropy.exp().mean(),
        "map_change": changes.mean() if follows.any() else maps.new_zeros(()),
        "map_distance": (maps - maps.mean(0)).abs().sum(-1).mean() / 2,
    }


class ScoreAlarm:
    """Ends a run that draws cells and never gives their scores a gradient."""

    def __init__(self) -> None:
        self.steps_without = 0

    def look(self, norm: Tensor) -> None:
        """At the norm of a step's gradient of the scores. Raises TrainingError after 20 steps in a row without any."""
        self.steps_without = 0 if norm > 0 else self.steps_without + 1
        if self.steps_without >= STEPS_WITHOUT_GRADIENT:
            raise TrainingError(
                f"attention: expected its scores to get a gradient, got none in {STEPS_WITHOUT_GRADIENT} steps: where "
                "the model looks would stay as it is though its captions look fine; set objective.reward_weight above 0"
            )


def draws_cells(decoder: nn.Module) -> bool:
    """Whether it looks at cells that are drawn, hard, mixed or by Gumbel."""
    attention = getattr(decoder, "attention", None)
    return isinstance(attention, Attention) and attention.selection.needs_log_weights


def score_gradient(decoder: nn.Module) -> Tensor | None:
    """() the norm of the gradient that the scores got; None where there is no attention, or its scores do not learn."""
    attention = getattr(decoder, "attention", None)
    if not isinstance(attention, Attention):
        return None
    learning = [each for each in attention.score.parameters() if each.requires_grad]
    norms = [each.grad.norm() for each in learning if each.grad is not None]
    if not learning:
        return None
    return torch.stack(norms).norm() if norms else torch.zeros(())


class RewardAlarm(Callback):
    """Ends self-critical training when its rewards fall by `drop` below the best that they were.

    Compared are running means over about 50 steps. What was best in validation is kept as in any run.
    """

    def __init__(self, drop: float) -> None:
        self.drop = drop
        self.mean = self.best = 0.0
        self.steps = 0

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *batch: object) -> None:
        """After each batch; the first 50 only fill the mean."""
        reward = float(pl_module.reported[REWARD])  # type: ignore[index]
        self.steps += 1
        weight = max(1 - DECAY, 1 / self.steps)
        self.mean += weight * (reward - self.mean)
        if self.steps * (1 - DECAY) < 1:
            return
        self.best = max(self.best, self.mean)
        if trainer.strategy.reduce_boolean_decision(self.mean < (1 - self.drop) * self.best, all=False):
            trainer.should_stop = True
            _log.warning(
                "stopped: the mean reward fell from %.3f to %.3f; the best captioner so far is kept. A lower "
                "optimizer.learning_rate or a larger objective.true_weight keeps captions from falling apart",
                self.best,
                self.mean,
            )

    def state_dict(self) -> dict[str, Any]:
        """The running values."""
        return {"mean": self.mean, "best": self.best, "steps": self.steps}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """As they were."""
        self.mean, self.best, self.steps = (state_dict[name] for name in ("mean", "best", "steps"))
