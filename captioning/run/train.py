"""Train a captioner as a config says, keep its best, and score it."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytorch_lightning as pl
import yaml

from captioning.build import SAMPLING, build_captioner, build_objective, describe_captioner
from captioning.captioner import Captioner
from captioning.checkpoint import load, save
from captioning.config import ObjectiveConfig, TrainingConfig
from captioning.data.dataset import CaptionDataset
from captioning.data.inspection import PictureFacts
from captioning.data.records import CaptionSet, build_vocabulary
from captioning.data.sources import Pictures
from captioning.disk import write_text
from captioning.errors import ConfigError
from captioning.evaluation import (
    count_frequencies,
    predict,
    score_predictions,
    search_details,
    write_predictions,
    write_scores,
)
from captioning.extraction import extraction_device
from captioning.metrics import Scores, frequencies
from captioning.run import folder as run_folder
from captioning.run import processes
from captioning.run.data import Progress, RunData, open_data, open_pictures
from captioning.run.lightning import fit, make_trainer, objective_callbacks, quiet_lightning, run_callbacks
from captioning.training.checkpoints import RunCheckpoints
from captioning.training.datamodule import CaptionDataModule, LoaderSettings
from captioning.training.module import CaptioningModule
from captioning.training.self_critical import CiderReward
from captioning.training.settings import SamplingSettings
from captioning.transfer import transfer

Report = Callable[[str], Progress]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingResult:
    """What came of a run."""

    folder: Path
    """Its folder."""
    captioner: Captioner
    """The best captioner by the watched metric."""
    scores: Scores
    """Of the best captioner on the validation split, with the search of the config."""
    data: RunData
    """What it was trained on."""


def train(config: TrainingConfig, *, report: Report | None = None) -> TrainingResult:
    """The whole run; `report(task)` makes a reporter `(done, total)` for a long task.

    Writes nothing before the data is read and fits. Raises the kinds of CaptioningError that a user can mend.
    """
    _check_selection(config.model.attention.selection, config.objective)
    started = time.monotonic()
    report = report or _silent
    resume = config.ckpt_path is not None
    leads = processes.leads()
    folder = run_folder.choose_run_folder(Path(config.output), config.name, overwrite=config.overwrite, resume=resume)
    checkpoint = run_folder.find_checkpoint(folder, config.ckpt_path, named=config.name is not None)
    pl.seed_everything(config.seed, workers=True, verbose=False)
    data = open_data(config.data, seed=config.seed, progress=report("check pictures"))
    captioner = _fresh_captioner(config, data)
    pictures = open_pictures(
        config.data,
        data,
        captioner.encoder,
        device=extraction_device(config.trainer.accelerator),
        progress=report("encode pictures"),
    )
    module = _module(config, captioner, data)
    if leads:
        run_folder.create_run_folder(folder, overwrite=config.overwrite, resume=resume)
        _write_config(folder, config)
        _write_skipped(folder, data.skipped)
    checkpoints = RunCheckpoints(
        folder / run_folder.CHECKPOINTS,
        monitor=f"validation/{config.trainer.monitor}",
        every_n_steps=config.trainer.checkpoint_every_n_steps,
    )
    callbacks = [*objective_callbacks(config.objective), *run_callbacks(config.trainer, folder, data), checkpoints]
    trainer = make_trainer(config.trainer, folder, callbacks)
    with run_folder.told_to_later_processes(folder), processes.one_fate(), quiet_lightning():
        fit(trainer, module, _loaders(config, captioner, data, pictures), checkpoint)
    best = _keep_best(checkpoints, module, folder, leads=leads)
    if leads:
        _keep_frequencies(data.captions.split("train"), folder / run_folder.MODEL)
    progress = report("caption the validation pictures")
    scores = _evaluate(best, data, pictures, progress, folder=folder if leads else None)
    _log.warning("done in %.1f minutes: %s", (time.monotonic() - started) / 60, folder)
    return TrainingResult(folder, best, scores, data)


def _check_selection(selection: str, objective: ObjectiveConfig) -> None:
    """Captions of a sampling model look fine though its attention never gets a gradient, so that is refused."""
    samples = selection in SAMPLING
    if selection == "argmax" or (samples and objective.name == "cross_entropy"):
        raise ConfigError(
            f"model.attention.selection {selection}: cross-entropy gives its scores no gradient, so where it looks "
            "would stay random; train with soft or gumbel, or hard or mixed with --objective.name hard"
        )
    if objective.name == "hard" and not samples:
        raise ConfigError(
            f"objective.name hard: expected model.attention.selection hard or mixed, got {selection}: it has no "
            "samples to reward"
        )
    if objective.glimpses != 1 and objective.name != "hard":
        raise ConfigError(
            f"objective.glimpses: expected 1 with objective.name {objective.name}, got {objective.glimpses}: several "
            "regions a word are for objective.name hard"
        )


def _silent(task: str) -> Progress:
    return lambda done, total: None


def _fresh_captioner(config: TrainingConfig, data: RunData) -> Captioner:
    vocabulary = build_vocabulary(
        data.captions,
        minimum_count=config.data.minimum_count,
        maximum_size=config.data.maximum_words,
        tokenizer=config.data.tokenizer,
    )
    captioner = build_captioner(config.model, vocabulary, config.search)
    if config.init_from is not None:
        taken = transfer(load(config.init_from), captioner)
        _log.warning("init_from %s: %s", config.init_from, taken.describe())
    return captioner


def _module(config: TrainingConfig, captioner: Captioner, data: RunData) -> CaptioningModule:
    objective = build_objective(
        config.objective,
        config.model,
        reward=lambda: CiderReward(data.captions.split("train").references, captioner.vocabulary),
    )
    return CaptioningModule(
        captioner,
        objective,
        description=describe_captioner(captioner, config.model),
        optimizer=config.optimizer,
        references=data.captions.split("val").references,
        validation_search=config.search.changed(method="beam", beam_size=config.trainer.validation_beam_size),
        monitor=config.trainer.monitor,
        sampling=SamplingSettings(config.objective.scheduled_sampling, config.objective.scheduled_sampling_epochs),
        seed=config.seed,
    )


def _loaders(config: TrainingConfig, captioner: Captioner, data: RunData, pictures: Pictures) -> CaptionDataModule:
    train, validation = (
        CaptionDataset(
            data.captions.split(split),
            captioner.vocabulary,
            pictures,
            captions_per_image=config.data.captions_per_image,
            seed=config.seed,
        )
        for split in ("train", "val")
    )
    settings = LoaderSettings(
        config.data.batch_size, config.data.evaluation_batch_size, config.data.workers, config.seed
    )
    return CaptionDataModule(train, validation, settings, data.shards)


def _keep_best(checkpoints: RunCheckpoints, module: CaptioningModule, folder: Path, *, leads: bool) -> Captioner:
    """The best captioner, also saved as the one to share; the present one where there is no checkpoint."""
    path = checkpoints.best_path
    best = load(path) if path else module.captioner.cpu().eval()
    if leads:
        save(best, module.description, folder / run_folder.MODEL)
    return best


def _keep_frequencies(captions: CaptionSet, folder: Path) -> None:
    """CIDEr's document frequencies of the training captions, beside the model; a single image has none."""
    if len(captions) > 1:
        count_frequencies(captions).save(folder / frequencies.FILE)


def _evaluate(
    captioner: Captioner, data: RunData, pictures: Pictures, progress: Progress, *, folder: Path | None
) -> Scores:
    """Score the captioner on the validation pictures; with a folder, write predictions and scores there."""
    captions = data.captions.split("val")
    predictions = predict(captioner, captions, pictures, progress=progress)
    scores = score_predictions(predictions.captions, captions)
    if folder is None:
        return scores
    write_predictions(folder / run_folder.PREDICTIONS, predictions.captions)
    write_scores(
        folder / run_folder.SCORES,
        scores,
        details={
            "split": "val",
            "images": len(captions),
            "cut_off": predictions.unfinished,
            "images_skipped": len(data.skipped),
            **search_details(captioner.default_search),
        },
    )
    return scores


def _write_config(folder: Path, config: TrainingConfig) -> None:
    text = yaml.safe_dump(json.loads(json.dumps(asdict(config))), sort_keys=False, allow_unicode=True)
    write_text(folder / run_folder.CONFIG, text)


def _write_skipped(folder: Path, skipped: Sequence[PictureFacts]) -> None:
    """A line a picture that was left out: its id, a tab, the reason. No file where there is none."""
    lines = [f"{facts.image.image_id}\t{facts.fault}\n" for facts in skipped]
    if lines:
        write_text(folder / run_folder.SKIPPED, "".join(lines))
