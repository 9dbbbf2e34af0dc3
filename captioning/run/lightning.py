"""Lightning as a run drives it: its callbacks, its Trainer, and its loop without its own notices."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytorch_lightning as pl
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import Callback, LearningRateMonitor
from pytorch_lightning.loggers import CSVLogger, Logger, TensorBoardLogger

from captioning.config import ObjectiveConfig, TrainerConfig
from captioning.errors import ConfigError
from captioning.run import folder as run_folder
from captioning.run.data import RunData
from captioning.training.alarms import RewardAlarm
from captioning.training.callbacks import MovingAverage, Patience, SamplePicture, SampleSheet
from captioning.training.checkpoints import WholeFiles
from captioning.training.datamodule import CaptionDataModule
from captioning.training.module import CaptioningModule
from captioning.training.number_type import choose_precision
from captioning.training.schedules import SelectionSchedule, SelectionSettings


def objective_callbacks(config: ObjectiveConfig) -> list[Callback]:
    """What an objective asks for: schedules and alarms."""
    schedule = SelectionSettings(
        hard_share=config.hard_share,
        hard_share_end=config.hard_share_end,
        shared_coin=config.shared_coin,
        glimpses=config.glimpses,
        gumbel_temperature=config.gumbel_temperature,
        gumbel_temperature_end=config.gumbel_temperature_end,
        start=config.selection_start,
        epochs=config.selection_epochs,
    )
    alarms: list[Callback] = [RewardAlarm(config.reward_drop)] if config.name == "self_critical" else []
    return [SelectionSchedule(schedule), *alarms]


def run_callbacks(config: TrainerConfig, folder: Path, data: RunData) -> list[Callback]:
    """What every run may ask for: sample sheets, averaged weights, an early end."""
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


def make_trainer(config: TrainerConfig, folder: Path, callbacks: list[Callback]) -> pl.Trainer:
    """Lightning's Trainer, which logs into the run's folder."""
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


def fit(trainer: pl.Trainer, module: CaptioningModule, loaders: CaptionDataModule, checkpoint: Path | None) -> None:
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
def quiet_lightning() -> Iterator[None]:
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
