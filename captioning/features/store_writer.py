"""Making a feature store: a shard at a time, each whole or absent at whatever moment the writer dies."""

import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import torch
from safetensors.torch import save
from torch import Tensor

from captioning.disk import write_whole
from captioning.errors import DiskError, StoreError
from captioning.features.image_features import ImageFeatures
from captioning.features.store import DTYPES, FORMAT, INDEX, TENSOR, FeatureStore, StoreKey

_log = logging.getLogger(__name__)

Produce = Callable[[Sequence[str]], Iterable[tuple[Sequence[str], Sequence[ImageFeatures]]]]
"""Given the ids to make, yields batches: their ids and, for each view of the key, their features."""


def write_store(
    folder: str | Path,
    key: StoreKey,
    image_ids: Sequence[str],
    produce: Produce,
    *,
    shard_size: int = 256,
    wait: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> FeatureStore:
    """Make the store of `image_ids`, or go on with it: only pictures that it lacks are produced.

    `produce` may leave ids out (a picture that can't be read): they stay missing. A shard holds whole
    batches, at least `shard_size` pictures but for the last. `progress(done, total)` is called after each.

    While another process writes it, `wait` waits for it and then makes what is still missing: so of many processes
    that ask at once the first makes the store, and one goes on where it dies.

    Raises StoreError where the folder holds a store of another key, is being written by another process (without
    `wait`), or can't be written; shards that are finished stay.
    """
    _check_unique(image_ids)
    folder = Path(folder)
    with _locked(folder, wait=wait):
        stored = FeatureStore.open(folder, key) if (folder / INDEX).exists() else None
        missing = [image_id for image_id in image_ids if stored is None or image_id not in stored]
        writer = _Writer(folder, key, stored, asked=missing)
        done = len(image_ids) - len(missing)
        for ids, views in produce(missing) if missing else ():
            writer.add(ids, views)
            done += len(ids)
            if writer.waiting >= shard_size:
                writer.flush()
            if progress is not None:
                progress(done, len(image_ids))
        writer.flush()
        if not (folder / INDEX).exists():
            raise StoreError(f"feature store {folder}: empty, as none of {len(image_ids)} pictures was encoded")
        return FeatureStore.open(folder, key)


class _Writer:
    """Gathers batches into shards, and keeps the index true after each."""

    def __init__(self, folder: Path, key: StoreKey, stored: FeatureStore | None, *, asked: Iterable[str]) -> None:
        self.folder = folder
        self.key = key
        self._asked = set(asked)
        self._grid = (stored.rows, stored.columns, stored.width) if stored else None
        self._shards = list(stored.shards) if stored else []
        self._ids: list[str] = []
        self._regions: list[Tensor] = []

    @property
    def waiting(self) -> int:
        """Pictures that no shard holds yet."""
        return len(self._ids)

    def add(self, ids: Sequence[str], views: Sequence[ImageFeatures]) -> None:
        """Take a batch; raise StoreError where it isn't what the key and the earlier batches say."""
        for image_id in ids:
            if image_id not in self._asked:
                raise StoreError(f"feature store {self.folder}: picture {image_id!r} was not asked for, or came twice")
            self._asked.remove(image_id)
        if len(views) != len(self.key.views) or any(len(view) != len(ids) for view in views):
            counts = [len(view) for view in views]
            raise StoreError(
                f"feature store {self.folder}: expected {len(ids)} pictures in the views "
                f"{', '.join(self.key.views)}, got {counts}"
            )
        for view in views:
            self._check_grid(view)
        regions = torch.stack([view.regions.detach().to("cpu") for view in views], dim=1)  # (n, V, R, D)
        self._ids += ids
        self._regions.append(self._converted(ids, regions))

    def flush(self) -> None:
        """Write what waits as a shard, then the index that names it."""
        if not self._ids:
            return
        name = f"shard-{len(self._shards):05d}.safetensors"
        tensors = {TENSOR: torch.cat(self._regions)}
        self._write(name, save(tensors, metadata={"image_ids": json.dumps(self._ids)}))
        shards = [*self._shards, name]
        index = {"format": FORMAT, "key": self.key.to_dict(), "grid": self._grid, "shards": shards}
        self._write(INDEX, json.dumps(index, indent=1).encode())
        self._shards, self._ids, self._regions = shards, [], []

    def _check_grid(self, features: ImageFeatures) -> None:
        grid = (features.rows, features.columns, features.regions.shape[2])
        if self._grid is None:
            self._grid = grid
        if features.mask is not None or grid != self._grid:
            masked = "" if features.mask is None else " with a mask"
            raise StoreError(
                f"feature store {self.folder}: expected (rows, columns, width) {self._grid} without a mask, "
                f"got {grid}{masked}"
            )

    def _converted(self, ids: Sequence[str], regions: Tensor) -> Tensor:
        converted = regions.to(DTYPES[self.key.dtype])
        finite = converted.isfinite().flatten(1).all(dim=1)
        if not finite.all():
            first = int(finite.logical_not().nonzero()[0, 0])
            raise StoreError(
                f"feature store {self.folder}: {self.key.dtype} can't hold those of picture {ids[first]!r} "
                f"(largest: {regions[first].abs().max():g}); take bfloat16 or float32, or look at the weights"
            )
        return converted

    def _write(self, name: str, content: bytes) -> None:
        try:
            write_whole(self.folder / name, content)
        except DiskError as error:
            raise StoreError(
                f"feature store {self.folder}: can't write {name} ({error.reason}); "
                f"its {len(self._shards)} finished shards are kept, run again to go on"
            ) from error


@contextmanager
def _locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Hold the folder against other writers, until this process lets go or dies."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"feature store {folder}: can't write there ({error.strerror})") from error
    with file:
        _lock(file, folder, wait=wait)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _lock(file: TextIO, folder: Path, *, wait: bool) -> None:
    # Not flock: workers forked to load pictures would inherit it and might outlive their parent.
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        file.seek(0)
        writer = f"feature store {folder}: being written by process {file.read().strip()}"
        if not wait:
            raise StoreError(f"{writer}; wait for it, or give another folder") from error
        _log.warning("%s; waiting for it", writer)
        fcntl.lockf(file, fcntl.LOCK_EX)


def _check_unique(image_ids: Sequence[str]) -> None:
    seen: set[str] = set()
    for image_id in image_ids:
        if image_id in seen:
            raise StoreError(f"feature store: picture {image_id!r} is given twice; ids must differ")
        seen.add(image_id)
