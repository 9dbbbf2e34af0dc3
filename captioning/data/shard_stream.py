"""Training on shards that are read from end to end in each epoch, for sets larger than a disk.

One pass beforehand (`scan_shards`) reads all captions and counts; the pictures of val and test, which are few, are put
into a folder by it. Then `ShardStream` gives each process and worker an equal stretch of the epoch.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from captioning.data.batch import CaptionBatch
from captioning.data.dataset import CaptionDataset
from captioning.data.inspection import PictureFacts, inspect_picture
from captioning.data.records import CaptionedImage, CaptionSet, clean
from captioning.data.sampler import BatchRequest, TrainingOrder
from captioning.data.splits import FRACTIONS, split_by_hash
from captioning.data.webdataset import find_shards, fingerprint, read_samples, split_of_shard, unique_ids
from captioning.errors import DataError

SCAN = "scan.json"
"""What a scan found, kept beside the pictures of val and test, so that the next run need not scan."""


@dataclass(frozen=True)
class ScannedShards:
    """What one pass over all shards found."""

    captions: CaptionSet
    """All splits. Pictures to train on have no place of their own: they come with the stream."""
    keys: Mapping[str, Mapping[str, str]]
    """Shard -> key -> id of its training pictures, in order; shards without any are left out."""
    skipped: tuple[PictureFacts, ...] = ()
    """The pictures that can't be read, where these were looked for."""


def scan_shards(
    source: str | Path,
    folder: Path,
    *,
    fractions: Mapping[str, float] = FRACTIONS,
    skip_bad: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ScannedShards:
    """Read every shard once, or what an earlier scan of the same shards left in `folder`. Raises DataError.

    skip_bad: decode every picture, and leave out those that can't be read.
    """
    shards = find_shards(source)
    mark = sha256(json.dumps([fingerprint(shards), dict(fractions), skip_bad]).encode()).hexdigest()
    found = _read_scan(folder / SCAN, mark)
    if found is None:
        folder.mkdir(parents=True, exist_ok=True)
        found = {}
        for done, shard in enumerate(shards, start=1):
            found[shard] = list(_scan(shard, folder, fractions, skip_bad))
            if progress is not None:
                progress(done, len(shards))
        fresh = folder / f"{SCAN}.partial"
        fresh.write_text(json.dumps({"mark": mark, "shards": found}, ensure_ascii=False), encoding="utf-8")
        fresh.replace(folder / SCAN)
    return _scanned(found, folder)


def _scanned(found: Mapping[str, list[dict[str, Any]]], folder: Path) -> ScannedShards:
    ids = unique_ids({shard: [row["key"] for row in rows] for shard, rows in found.items()})
    records, skipped = [], []
    for shard, rows in found.items():
        for row, image_id in zip(rows, ids[shard], strict=True):
            record = CaptionedImage(image_id, folder / row["file"], tuple(row["captions"]), row["split"])
            if row["fault"] is None:
                records.append(record)
            else:
                skipped.append(PictureFacts(record, row["fault"]))
    captions = clean(records, check_files=False)
    used = {record.image_id for record in captions.records if record.split == "train"}
    pairs = {shard: zip((row["key"] for row in rows), ids[shard], strict=True) for shard, rows in found.items()}
    keys = {shard: {key: image_id for key, image_id in own if image_id in used} for shard, own in pairs.items()}
    return ScannedShards(captions, {shard: own for shard, own in keys.items() if own}, tuple(skipped))


def _scan(shard: str, folder: Path, fractions: Mapping[str, float], skip_bad: bool) -> Iterator[dict[str, Any]]:
    stated = split_of_shard(shard)
    for sample in read_samples(shard, with_pictures=True):
        split = stated or split_by_hash(sample.key, fractions)
        file = sha256(f"{shard}\n{sample.key}".encode()).hexdigest()[:24] + Path(sample.picture).suffix
        if split != "train":
            (folder / file).write_bytes(sample.content)
        content = partial(bytes, sample.content)
        picture = CaptionedImage(sample.key, Path(shard) / sample.picture, (), split, content)
        fault = inspect_picture(picture).fault if skip_bad else None
        yield {"key": sample.key, "captions": sample.captions, "split": split, "file": file, "fault": fault}


def _read_scan(path: Path, mark: str) -> dict[str, list[dict[str, Any]]] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return dict(content["shards"]) if content["mark"] == mark else None
    except (OSError, ValueError, KeyError):
        return None


class ShardStream(TrainingOrder, IterableDataset[CaptionBatch]):
    """The training batches of one process, from shards that are read from end to end.

    An epoch puts the shards into an order by (seed, epoch) and cuts the row of all their pictures into equal stretches:
    one a process, and of that one a worker. So each picture comes once an epoch over all processes and workers, a
    process reads no more than its stretch and the rest of two shards, and all processes take equally many steps, whose
    sizes differ by one picture at most. Within a worker's stretch pictures are shuffled through `buffer` of them.
    """

    def __init__(
        self,
        dataset: CaptionDataset,
        shards: ScannedShards,
        *,
        batch_size: int,
        seed: int = 0,
        buffer: int = 1000,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """`dataset`: of the training captions; its source reads pictures from the stream's bytes."""
        self.dataset, self.shards, self.seed, self.buffer = dataset, shards, seed, buffer
        pictures = sum(map(len, shards.keys.values()))
        if pictures < world_size:
            raise DataError(f"training pictures: expected one or more a process, got {pictures} for {world_size}")
        start, stop = (pictures * each // world_size for each in (rank, rank + 1))
        most, fewest = -(-pictures // world_size), pictures // world_size
        steps = max(1, min(-(-most // batch_size), fewest))
        self._bounds = [start + (stop - start) * step // steps for step in range(steps + 1)]
        self._places = {record.image_id: place for place, record in enumerate(dataset.captions.records)}

    def __len__(self) -> int:
        """Steps of a whole epoch of this process."""
        return len(self._bounds) - 1

    def __iter__(self) -> Iterator[CaptionBatch]:
        worker = get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        seen = self.seen
        # The loader takes turns among workers from the first on, so that one takes the stretch that is next in turn.
        turn = (number + seen) % workers
        steps = [len(range(each, len(self), workers)) for each in range(workers)]
        first, last = sum(steps[:turn]), sum(steps[: turn + 1])
        pictures = self._shuffled(self._bounds[first], self._bounds[last])
        for step in range(first, last):
            batch = list(islice(pictures, self._bounds[step + 1] - self._bounds[step]))
            if step - first >= len(range(turn, seen, workers)):
                yield self._batch(batch)

    def _batch(self, pictures: Sequence[tuple[str, bytes]]) -> CaptionBatch:
        places = tuple(self._places[image_id] for image_id, _ in pictures)
        records = [
            replace(self.dataset.captions.records[place], content=partial(bytes, content))
            for place, (_, content) in zip(places, pictures, strict=True)
        ]
        return self.dataset.batch(BatchRequest(places, self.epoch), records)

    def _shuffled(self, start: int, stop: int) -> Iterator[tuple[str, bytes]]:
        generator = np.random.default_rng((self.seed, self.epoch, start))
        waiting: list[tuple[str, bytes]] = []
        for picture in self._stretch(start, stop):
            waiting.append(picture)
            if len(waiting) > self.buffer:
                yield waiting.pop(int(generator.integers(len(waiting))))
        generator.shuffle(waiting)
        yield from waiting

    def _stretch(self, start: int, stop: int) -> Iterator[tuple[str, bytes]]:
        """(id, bytes) of the pictures from place `start` to `stop` in the row of this epoch's shards."""
        names = list(self.shards.keys)
        place = 0
        for shard in np.random.default_rng((self.seed, self.epoch)).permutation(len(names)):
            ids = self.shards.keys[names[shard]]
            wanted = set(list(ids)[max(0, start - place) : max(0, stop - place)])
            place += len(ids)
            for sample in read_samples(names[shard], with_pictures=True) if wanted else ():
                if sample.key in wanted:
                    wanted.remove(sample.key)
                    yield ids[sample.key], sample.content
                if not wanted:
                    break
            if wanted:
                raise DataError(f"{names[shard]}: {len(wanted)} pictures are gone since it was scanned; scan it again")


@dataclass
class StreamLoader:
    """What a training loop goes through: in every epoch fresh workers, which know the epoch."""

    sampler: ShardStream
    """The stream; under this name a training loop tells it the epoch."""
    workers: int = 0
    pin_memory: bool = False

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[CaptionBatch]:
        loader = DataLoader(self.sampler, batch_size=None, num_workers=self.workers, pin_memory=self.pin_memory)
        return iter(loader)
