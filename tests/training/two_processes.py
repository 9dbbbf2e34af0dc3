"""Train on two processes (gloo), one scenario after the other, and write what each ends with.

Started by test_two_processes.py, with the environment that a launcher gives but for the number of the process.
"""

import multiprocessing
import os
import sys
from pathlib import Path

import torch
from pytorch_lightning.callbacks import Callback

from captioning.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from captioning.estimators.baselines import PerStep
from captioning.training.hard_attention import HardAttention
from captioning.training.objectives import CrossEntropy
from tests.training import small_run

FROZEN = EncoderConfig(name="resnet18", weights="none", image_size=96)
TUNED = EncoderConfig(name="resnet18", weights="none", image_size=96, tune_from="layer4")
SMALL = DecoderConfig(state_width=11, word_width=5, dropout=0.0)


class Record(Callback):
    """The gradients of the last step, the pictures of each step, and where hard attention looked."""

    def __init__(self):
        self.gradients, self.images, self.cells = {}, [], []

    def setup(self, trainer, pl_module, stage):
        if isinstance(pl_module.objective, torch.nn.Module):
            pl_module.objective.register_forward_pre_hook(self._note)

    def _note(self, objective, arguments):
        if objective.training and "cell" in arguments[0].details:
            self.cells.append(arguments[0].details["cell"].clone())

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.images.append(batch.image_ids)
        self.gradients = {name: each.grad for name, each in pl_module.named_parameters() if each.requires_grad}


def step_of_one():
    return small_run.make(7, batch_size=2), {"max_epochs": 2}


def hard(selection="hard", **more):
    objective = HardAttention(CrossEntropy(), baseline=PerStep(), entropy_weight=0.1)
    model = ModelConfig(small_run.MODEL.encoder, AttentionConfig(width=7, selection=selection), SMALL)
    return small_run.make(8, batch_size=2, objective=objective, model=model, **more), {"max_steps": 2}


def encoder(config):
    return small_run.make(8, batch_size=2, model=ModelConfig(config, AttentionConfig(width=7), SMALL)), {"max_steps": 2}


SCENARIOS = {
    "step_of_one": step_of_one,
    "five_pictures": lambda: (small_run.make(5, batch_size=2), {}),
    "soft": lambda: (small_run.make(8, batch_size=2), {"max_steps": 2}),
    "hard": hard,
    "mixed": lambda: hard("mixed"),
    "frozen": lambda: encoder(FROZEN),
    "tuned": lambda: encoder(TUNED),
    "hard_alike": lambda: hard(alike=True, monitor="BLEU-4"),
    "hard_alike_again": lambda: hard(alike=True, monitor="BLEU-4"),
}


def train_all(rank: int, folder: Path) -> None:
    os.environ["LOCAL_RANK"] = str(rank)
    for name, scenario in SCENARIOS.items():
        (module, loaders), settings = scenario()
        record = Record()
        made = small_run.fit(module, loaders, devices=2, strategy="ddp", callbacks=[record], **settings)
        content = {
            "weights": module.captioner.state_dict(),
            "predictions": module.predictions,
            "gradients": record.gradients,
            "images": record.images,
            "cells": record.cells,
        }
        torch.save(content, folder / f"{name}_{made.global_rank}.pt")


def main() -> int:
    """Both processes are forked from this one, which has imported everything and computed nothing."""
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=train_all, args=(rank, Path(sys.argv[1]))) for rank in range(2)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    return int(any(process.exitcode for process in started))


if __name__ == "__main__":
    sys.exit(main())
