"""Train a captioner as a config says, keep its best, and score it."""

import json
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import pytorch_lightning as pl
import yaml
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import Callback, LearningRateMonitor
from pytorch_lightning.loggers import CSVLogger, Logger, TensorBoardLogger

from captioning.build import build_captioner, build_objective, describe_captioner
from captioning.captioner import Captioner
from captioning.checkpoint import load, save
from captioning.config import TrainerConfig, TrainingConfig
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
from captioning.training.callbacks import MovingAverage, Patience, SamplePicture, SampleSheet
from captioning.training.checkpoints import RunCheckpoints, WholeFiles
from captioning.training.datamodule import CaptionDataModule, LoaderSettings
from captioning.training.module import CaptioningModule
from captioning.training.number_type import choose_precision
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
    _check_selection(config.model.attention.selection, config.objective.name)
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
    trainer = _trainer(config.trainer, folder, [*_callbacks(config.trainer, folder, data), checkpoints])
    with run_folder.told_to_later_processes(folder), processes.one_fate(), _quiet_lightning():
        _fit(trainer, module, _loaders(config, captioner, data, pictures), checkpoint)
    best = _keep_best(checkpoints, module, folder, leads=leads)
    if leads:
        _keep_frequencies(data.captions.split("train"), folder / run_folder.MODEL)
    progress = report("caption the validation pictures")
    scores = _evaluate(best, data, pictures, progress, folder=folder if leads else None)
    _log.warning("done in %.1f minutes: %s", (time.monotonic() - started) / 60, folder)
    return TrainingResult(folder, best, scores, data)


def _check_selection(selection: str, objective: str) -> None:
    """Captions of a sampling model look fine though its attention never gets a gradient, so that is refused."""
    samples = selection in ("hard", "mixed")
    if selection == "argmax" or (samples and objective != "hard"):
        raise ConfigError(
            f"model.attention.selection {selection}: cross-entropy gives its scores no gradient, so where it looks "
            "would stay random; train with soft or gumbel, or hard or mixed with --objective.name hard"
        )
    if objective == "hard" and not samples:
        raise ConfigError(
            f"objective.name hard: expected model.attention.selection hard or mixed, got {selection}: it has no "
            "samples to reward"
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
    return CaptioningModule(
        captioner,
        build_objective(config.objective),
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


def _callbacks(config: TrainerConfig, folder: Path, data: RunData) -> list[Callback]:
    callbacks: list[Callback] = [LearningRateMonitor(logging_interval="step")]
    if config.sample_images:
        records = data.captions.split("val").records[: config.sample_images]
        pictures = [SamplePicture(each.image_id, data.picture(each), each.captions) for each in records]
        # Before the moving average, which after validation puts the latest weights back.
        callbacks.append(SampleSheet(pictures, folder / run_folder.SAMPLES))
    if config.ema_decay is not None:
        callbacks.append(MovingAverage(config.ema_decay))
    if config.patience is not None:
        callbacks.append(Patience(f"validation/{config.monitor}", patience=config.patience))
    return callbacks


def _trainer(config: TrainerConfig, folder: Path, callbacks: list[Callback]) -> pl.Trainer:
    loggers: list[Logger] = [CSVLogger(folder, name="log")]
    if find_spec("tensorboard") is not None:
        loggers.append(TensorBoardLogger(folder, name="tensorboard"))
    return pl.Trainer(
        accelerator=config.accelerator,
        devices=config.devices,
        num_nodes=config.num_nodes,
        strategy=config.strategy,
        precision=choose_precision(config.precision, config.accelerator),  # type: ignore[arg-type]
        max_epochs=config.max_epochs,
        max_steps=config.max_steps,
        accumulate_grad_batches=config.accumulate_grad_batches,
        gradient_clip_val=config.gradient_clip_val,
        check_val_every_n_epoch=config.validate_every,
        log_every_n_steps=config.log_every_n_steps,
        num_sanity_val_steps=1,
        callbacks=callbacks,
        logger=loggers,
        enable_progress_bar=config.progress_bar,
        enable_model_summary=False,
        use_distributed_sampler=False,
        plugins=[WholeFiles()],
    )


def _fit(trainer: pl.Trainer, module: CaptioningModule, loaders: CaptionDataModule, checkpoint: Path | None) -> None:
    """Lightning's loop; its own complaints about settings as ours."""
    try:
        trainer.fit(module, loaders, ckpt_path=checkpoint, weights_only=True)
    except MisconfigurationException as error:
        raise ConfigError(" ".join(str(error).split())) from error
    except SystemExit:
        if trainer.interrupted:
            raise KeyboardInterrupt from None
        raise


@contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Without Lightning's notices and advice that does not apply (features are read from memory maps)."""
    # What Lightning says when it ends the run because one of its processes has died.
    logging.getLogger("lightning_fabric.strategies.launchers.subprocess_script").setLevel(logging.INFO)
    notices = logging.getLogger("pytorch_lightning")
    level = notices.level
    notices.setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec.*")
        warnings.filterwarnings("ignore", message=".*in eval mode at the start of training.*")
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        # The sampler goes on within an epoch, which Lightning does not know.
        warnings.filterwarnings("ignore", message=".*your dataloader is not resumable.*")
        warnings.filterwarnings(
            "ignore", message=".*number of training batches.*is smaller than the logging interval.*"
        )
        try:
            yield
        finally:
            notices.setLevel(level)


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
