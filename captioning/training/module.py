"""The LightningModule: it drives a captioner and an objective, and holds no maths of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as distributed
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from captioning.captioner import Captioner
from captioning.data.batch import CaptionBatch
from captioning.decoders.scheduled_sampling import ScheduledSampling
from captioning.decoding.search import Search
from captioning.errors import ConfigError
from captioning.metrics import Scorer
from captioning.training.alarms import ScoreAlarm, describe_maps, draws_cells, score_gradient
from captioning.training.checkpoint_files import check_same_captioner
from captioning.training.objectives import Loss, Objective
from captioning.training.optimizers import make_optimizer, make_plateau, make_schedule
from captioning.training.settings import OptimizerSettings, SamplingSettings

VALIDATION_METRICS = ("BLEU-1", "BLEU-4", "ROUGE-L", "CIDEr-D")


class CaptioningModule(pl.LightningModule):
    """Training and validation of a captioner.

    A batch's loss is a sum; once the optimizer step is complete, gradients are divided by the captions (or words) of
    the whole step: all accumulated batches, all processes. Validation decodes freely, each image once, and scores
    the captions with the metrics of `captioning evaluate`; what is watched is never computed on teacher-forced words.
    """

    def __init__(
        self,
        captioner: Captioner,
        objective: Objective,
        *,
        description: Mapping[str, Any],
        optimizer: OptimizerSettings,
        references: Mapping[str, Sequence[str]],
        validation_search: Search,
        monitor: str = "CIDEr-D",
        sampling: SamplingSettings | None = None,
        seed: int = 0,
    ) -> None:
        """`description`: what `captioning.checkpoint.load` needs to rebuild the captioner, in plain types."""
        super().__init__()
        self.captioner = captioner
        self.description = dict(description)
        self.objective = objective
        self.optimizer_settings = optimizer
        _check_monitor(monitor, len(references))
        self.scorer = Scorer(references, metrics=VALIDATION_METRICS)
        self.validation_search = validation_search
        self.monitor = monitor
        self.sampling = sampling or SamplingSettings()
        self.seed = seed
        self.predictions: dict[str, str] = {}
        self.reported: Mapping[str, float] = {}
        self._score_alarm = ScoreAlarm()
        self._step_count = 0
        self._nats, self._words = 0.0, 0
        self._plateau: ReduceLROnPlateau | None = None
        self._plateau_state: dict[str, Any] | None = None

    # Training

    def training_step(self, batch: CaptionBatch, batch_index: int) -> Tensor:
        """The batch's summed loss; its gradient is divided in `on_before_optimizer_step`."""
        # A seed for each batch and process: a resumed run draws (dropout, own words) what an unbroken one would.
        seed = hash((self.seed, self.current_epoch, batch_index, self.global_rank)) % 2**63
        torch.manual_seed(seed)
        features = self.captioner.features(batch)
        loss = self.objective.training_loss(self.captioner, batch, features, self._scheduled_sampling(seed))
        self._step_count += loss.count
        self.reported = loss.reported
        self._log_training(loss)
        return loss.total

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Divide the gradients by the count of the whole step.

        Lightning has divided by the number of accumulated batches, and a distributed strategy by the number of
        processes; both are undone, so that the count alone remains.
        """
        count = torch.tensor(float(self._step_count), device=self.device)
        if self.trainer.world_size > 1:
            distributed.all_reduce(count)
        scale = self.trainer.accumulate_grad_batches * self.trainer.world_size / max(count.item(), 1.0)
        gradients = [each.grad for each in self.parameters() if each.grad is not None]
        torch._foreach_mul_(gradients, scale)
        self._step_count = 0
        norm = score_gradient(self.captioner.decoder)
        if norm is not None:
            self.log("train/score_gradient", norm, on_step=True, on_epoch=False)
            if draws_cells(self.captioner.decoder):
                self._score_alarm.look(norm)

    def _scheduled_sampling(self, seed: int) -> ScheduledSampling | None:
        if self.sampling.probability == 0:
            return None
        steps = self.sampling.epochs * max(self.trainer.num_training_batches, 1)
        probability = self.sampling.probability * min(1.0, self.global_step / max(steps, 1))
        return ScheduledSampling(probability, torch.Generator(self.device).manual_seed(seed))

    def _log_training(self, loss: Loss) -> None:
        values: dict[str, Tensor | float] = {
            "train/loss": loss.total.detach() / max(loss.count, 1),
            "train/nats_per_word": loss.nats / max(loss.words, 1),
            "train/penalty": loss.penalty / max(loss.captions, 1),
            **{f"train/{name}": value for name, value in loss.reported.items()},
        }
        if self.global_step % self.trainer.log_every_n_steps == 0:  # type: ignore[attr-defined]
            values |= {f"train/{name}": value for name, value in describe_maps(loss.reading).items()}
        self.log_dict(values, batch_size=max(loss.captions, 1), on_step=True, on_epoch=False)
        self.log("nats", values["train/nats_per_word"], prog_bar=True, logger=False, batch_size=1)

    # Validation

    def on_validation_epoch_start(self) -> None:
        """Forget the last validation's captions."""
        self.predictions = {}
        self._nats, self._words = 0.0, 0

    def validation_step(self, batch: CaptionBatch, batch_index: int) -> None:
        """Caption the images freely; the nats of their true captions are logged beside, not watched."""
        features = self.captioner.features(batch)
        with self.captioner.looking(self.validation_search):
            reading = self.captioner.decoder(features, batch.inputs, batch.is_word)
            loss = self.objective(reading, batch, features)
        self._nats += loss.nats
        self._words += loss.words
        hypotheses = self.captioner.search(features, self.validation_search)
        vocabulary = self.captioner.vocabulary
        for image_id, (best, *_) in zip(batch.image_ids, hypotheses, strict=True):
            self.predictions[image_id] = vocabulary.join(vocabulary.decode(best.words))

    def on_validation_epoch_end(self) -> None:
        """Score the captions of all processes, each image once. The trial pass before training leaves no trace."""
        self.predictions, nats, words = self._gather()
        if self.trainer.sanity_checking:
            return
        values = self.scorer.score(self.predictions).corpus
        self.log_dict({f"validation/{name}": value for name, value in values.items()}, sync_dist=False)
        self.log("validation/nats_per_word", nats / max(words, 1), sync_dist=False)
        self.log(self.monitor, values[self.monitor], prog_bar=True, logger=False, sync_dist=False)
        if self._plateau is not None:  # here and not by Lightning, which would do so only after checkpoints are saved
            self._plateau.step(values[self.monitor])

    def _gather(self) -> tuple[dict[str, str], float, int]:
        own = (self.predictions, self._nats, self._words)
        if self.trainer.world_size == 1:
            return own
        parts: list[Any] = [None] * self.trainer.world_size
        distributed.all_gather_object(parts, own)
        merged = {image_id: caption for predictions, _, _ in parts for image_id, caption in predictions.items()}
        return merged, sum(part[1] for part in parts), sum(part[2] for part in parts)

    # Checkpoints and optimization

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Put everything into the checkpoint that is needed to rebuild the captioner; plain types only."""
        checkpoint["captioner"] = self.description
        checkpoint["plateau"] = None if self._plateau is None else self._plateau.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Raises CheckpointError where the checkpoint is of another captioner than the config describes."""
        check_same_captioner(checkpoint["captioner"], self.description)
        self._plateau_state = checkpoint.get("plateau")

    def configure_optimizers(self) -> Any:
        """One optimizer and a schedule by steps; for `plateau` its reductions at each validation besides."""
        settings = self.optimizer_settings
        optimizer = make_optimizer(
            settings,
            decoder=[*self.captioner.decoder.parameters(), *_parameters(self.objective)],
            encoder=self.captioner.encoder.parameters(),
        )
        schedule = make_schedule(optimizer, settings, total_steps=int(self.trainer.estimated_stepping_batches))
        self._plateau = make_plateau(optimizer, settings)
        if self._plateau is not None and self._plateau_state is not None:
            self._plateau.load_state_dict(self._plateau_state)
        return [optimizer], [schedule]


def _parameters(objective: Objective) -> list[nn.Parameter]:
    """Of a baseline that learns."""
    return list(objective.parameters()) if isinstance(objective, nn.Module) else []


def _check_monitor(monitor: str, images: int) -> None:
    if monitor not in VALIDATION_METRICS:
        raise ConfigError(f"trainer.monitor: expected one of {', '.join(VALIDATION_METRICS)}, got {monitor!r}")
    if monitor == "CIDEr-D" and images < 2:
        raise ConfigError(
            "trainer.monitor: CIDEr-D is undefined for a single validation image; give more, or watch BLEU-4"
        )
