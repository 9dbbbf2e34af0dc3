"""The LightningDataModule: batches of the training and validation pictures, dealt out to all processes."""

from dataclasses import dataclass
from typing import Any, TypeVar

import pytorch_lightning as pl
from torch.utils.data import DataLoader

from captioning.data.batch import CaptionBatch
from captioning.data.dataset import CaptionDataset, make_loader
from captioning.data.sampler import EvaluationSampler, TrainingOrder, TrainingSampler
from captioning.data.shard_stream import ScannedShards, ShardStream, StreamLoader

Order = TypeVar("Order", bound=TrainingOrder)


@dataclass(frozen=True)
class LoaderSettings:
    """How batches are made."""

    batch_size: int = 32
    """Images in a training step of one process."""
    evaluation_batch_size: int = 64
    """Images decoded at once."""
    workers: int = 0
    """Processes that read ahead."""
    seed: int = 0
    """Sets the batches of every epoch."""


class CaptionDataModule(pl.LightningDataModule):
    """Training batches shuffled by (seed, epoch), validation images exactly once over all processes."""

    def __init__(
        self,
        train: CaptionDataset,
        validation: CaptionDataset,
        settings: LoaderSettings,
        shards: ScannedShards | None = None,
    ) -> None:
        """`shards`: where training pictures are streamed from; None: they are read one by one."""
        super().__init__()
        self.train, self.validation, self.settings, self.shards = train, validation, settings, shards
        self._start = {"epoch": 0, "batches": 0}

    def state_dict(self) -> dict[str, Any]:
        """Where training stands: the epoch, and its batches that were trained on already."""
        assert self.trainer is not None
        batches = self.trainer.fit_loop.epoch_loop.batch_progress
        if batches.is_last_batch:  # saved after the epoch, which Lightning counts a moment later
            return {"epoch": self.trainer.current_epoch + 1, "batches": 0}
        return {"epoch": self.trainer.current_epoch, "batches": batches.current.ready}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there, however many workers read ahead. Lightning calls it before it asks for batches."""
        self._start = state_dict

    def train_dataloader(self) -> DataLoader[CaptionBatch] | StreamLoader:
        """Every training image once an epoch; Lightning tells the sampler of later epochs."""
        rank, world_size = self._place()
        place = {
            "batch_size": self.settings.batch_size,
            "seed": self.settings.seed,
            "rank": rank,
            "world_size": world_size,
        }
        workers, pin_memory = self.settings.workers, self._on_gpu()
        if self.shards is not None:
            stream = self._from_start(ShardStream(self.train, self.shards, **place))
            return StreamLoader(stream, workers=workers, pin_memory=pin_memory)
        sampler = self._from_start(TrainingSampler(self.train.lengths, **place))
        return make_loader(self.train, sampler, workers=workers, pin_memory=pin_memory)

    def _from_start(self, order: Order) -> Order:
        """The order of training batches, set to the epoch and batch to go on from."""
        order.set_epoch(self._start["epoch"])
        order.skip(self._start["batches"], epoch=self._start["epoch"])
        return order

    def val_dataloader(self) -> DataLoader[CaptionBatch]:
        """Every validation image once."""
        rank, world_size = self._place()
        size = self.settings.evaluation_batch_size
        sampler = EvaluationSampler(len(self.validation), batch_size=size, rank=rank, world_size=world_size)
        return make_loader(self.validation, sampler, workers=self.settings.workers, pin_memory=self._on_gpu())

    def _place(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def _on_gpu(self) -> bool:
        return self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"
