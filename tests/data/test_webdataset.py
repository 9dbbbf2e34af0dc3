"""Shards: read in place, and streamed over processes and workers without loss or repeat."""

import io
import json
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from captioning.data.dataset import CaptionDataset
from captioning.data.formats import read_captions, recognize
from captioning.data.records import build_vocabulary
from captioning.data.shard_stream import ShardStream, StreamLoader, scan_shards
from captioning.data.sources import PictureFiles
from captioning.data.webdataset import find_shards
from captioning.errors import DataError
from captioning.features.preprocessing import Preprocessing
from tests.cli.conftest import SMALL, call

PREPROCESSING = Preprocessing(size=4, mean=(0.0, 0.0, 0.0), deviation=(1 / 255, 1 / 255, 1 / 255), fit="squash")


def write_shard(path: Path, samples: dict[str, dict[str, bytes]], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for key, files in samples.items():
            for suffix, content in files.items():
                member = tarfile.TarInfo(f"{key}.{suffix}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path


def png(number: int) -> bytes:
    """4 x 4, the number in red and green."""
    stream = io.BytesIO()
    Image.new("RGB", (4, 4), (number % 256, number // 256, 9)).save(stream, "PNG")
    return stream.getvalue()


def sample(number: int) -> dict[str, bytes]:
    if number % 2:
        return {"png": png(number), "txt": f"picture {number}\n\nnumber {number}\n".encode()}
    return {"json": json.dumps({"caption": f"picture {number}", "width": 4}).encode(), "png": png(number)}


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Five training shards of 7, 1, 11, 5 and 13 pictures, one of val with 3; returns their folder."""
    numbers = iter(range(100))
    for shard, size in enumerate([7, 1, 11, 5, 13]):
        write_shard(tmp_path / f"train-{shard:03d}.tar", {f"{n:04d}": sample(n) for n in _some(numbers, size)})
    write_shard(tmp_path / "val-000.tar", {f"{n:04d}": sample(n) for n in _some(numbers, 3)})
    return tmp_path


def _some(numbers, size):
    return [next(numbers) for _ in range(size)]


def test_shards_are_read_in_place(shards: Path) -> None:
    assert recognize(shards) == recognize(f"{shards}/train-{{000..004}}.tar") == "webdataset"
    captions = read_captions(shards)
    assert {split: count.images for split, count in captions.counts().items()} == {"train": 37, "val": 3}
    assert captions.records[1].captions == ("picture 1", "number 1")
    assert captions.records[2].captions == ("picture 2",)
    for number, record in enumerate(captions.records):
        assert record.image_id == f"{number:04d}"
        assert np.asarray(record.load())[0, 0].tolist() == [number, 0, 9]


def test_patterns_name_their_shards_and_missing_ones_are_told(shards: Path) -> None:
    assert len(find_shards(f"{shards}/train-{{000..004}}.tar")) == 5
    with pytest.raises(DataError, match=r"train-005\.tar: no such shard \(1 of 6 are missing\)"):
        find_shards(f"{shards}/train-{{000..005}}.tar")


def test_shards_that_number_alike_keep_their_samples_apart(tmp_path: Path) -> None:
    for shard in range(2):
        write_shard(tmp_path / f"train-{shard}.tar", {f"{n:04d}": sample(10 * shard + n) for n in range(3)})
    expected = {f"train-{shard}/{n:04d}": 10 * shard + n for shard in range(2) for n in range(3)}
    found = {record.image_id: np.asarray(record.load())[0, 0, 0] for record in read_captions(tmp_path).records}
    assert found == expected
    made = stream(tmp_path, tmp_path / "scan", rank=0, world_size=1)
    streamed = [pair for batch in made for pair in zip(batch.image_ids, batch.pixels[:, 0, 0, 0].tolist(), strict=True)]
    assert {name: round(number) for name, number in streamed} == expected


def test_damaged_shards_and_captions_are_told(shards: Path) -> None:
    path = shards / "train-002.tar"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError, match=r"train-002\.tar: damaged or cut off after"):
        read_captions(path)
    (shards / "page.tar").write_text("<html>")
    with pytest.raises(DataError, match=r"page\.tar: expected a tar file of samples"):
        read_captions(shards / "page.tar")
    write_shard(shards / "odd.tar", {"a": {"png": png(1), "json": b"[1]"}})
    with pytest.raises(DataError, match=r"a\.json: expected an object with a caption"):
        read_captions(shards / "odd.tar")


def stream(shards: Path, folder: Path, *, rank: int, world_size: int, **options: int) -> ShardStream:
    scanned = scan_shards(shards, folder)
    train = scanned.captions.split("train")
    vocabulary = build_vocabulary(train, minimum_count=1)
    dataset = CaptionDataset(train, vocabulary, PictureFiles(PREPROCESSING))
    options = {"batch_size": 4, "seed": 3, "buffer": 5} | options
    return ShardStream(dataset, scanned, rank=rank, world_size=world_size, **options)


def epoch_of(made: ShardStream, *, epoch: int, workers: int = 0) -> list[list[str]]:
    made.set_epoch(epoch)
    batches = []
    for batch in StreamLoader(made, workers):
        numbers = batch.pixels[:, 0, 0, 0].round().int().tolist()
        assert [f"{number:04d}" for number in numbers] == list(batch.image_ids)  # each with its own picture
        batches.append(list(batch.image_ids))
    return batches


@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 37])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_each_picture_comes_once_over_all_processes(
    shards: Path, tmp_path: Path, world_size: int, batch_size: int
) -> None:
    processes = [
        stream(shards, tmp_path / "scan", rank=rank, world_size=world_size, batch_size=batch_size)
        for rank in range(world_size)
    ]
    seen = [epoch_of(made, epoch=0) for made in processes]
    assert {len(batches) for batches in seen} == {len(processes[0])}
    assert all(1 <= len(batch) <= batch_size + 1 for batches in seen for batch in batches)
    names = Counter(name for batches in seen for batch in batches for name in batch)
    assert names == Counter(f"{number:04d}" for number in range(37))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_picture_comes_once_over_all_workers(shards: Path, tmp_path: Path, workers: int) -> None:
    made = stream(shards, tmp_path / "scan", rank=1, world_size=2)
    alone = {name for batch in epoch_of(made, epoch=1) for name in batch}
    batches = epoch_of(made, epoch=1, workers=workers)
    assert len(batches) == len(made)
    assert Counter(name for batch in batches for name in batch) == Counter(alone)
    for seen in range(1, len(batches)):
        made.skip(seen, epoch=1)
        assert epoch_of(made, epoch=1, workers=workers) == batches[seen:]


def test_epochs_differ_and_a_seed_repeats_them(shards: Path, tmp_path: Path) -> None:
    made = stream(shards, tmp_path / "scan", rank=0, world_size=1)
    first, second = (epoch_of(made, epoch=epoch) for epoch in (0, 1))
    assert first != second
    assert epoch_of(stream(shards, tmp_path / "scan", rank=0, world_size=1), epoch=0) == first
    assert epoch_of(stream(shards, tmp_path / "scan", rank=0, world_size=1, seed=4), epoch=0) != first


def test_a_scan_is_kept_until_the_shards_change_and_holds_the_pictures_of_val(shards: Path, tmp_path: Path) -> None:
    folder = tmp_path / "scan"
    told: list[int] = []
    scanned = scan_shards(shards, folder, progress=lambda done, total: told.append(done))
    scan_shards(shards, folder, progress=lambda done, total: told.append(done))
    assert told == [1, 2, 3, 4, 5, 6]
    val = scanned.captions.split("val").records
    assert [np.asarray(record.load())[0, 0, 0] for record in val] == [37, 38, 39]
    assert len(list(folder.iterdir())) == 3 + 1
    write_shard(shards / "train-001.tar", {"0007": sample(7), "0099": sample(99)})
    assert sum(map(len, scan_shards(shards, folder).keys.values())) == 38


def test_compressed_shards_are_streamed_and_refused_otherwise(tmp_path: Path) -> None:
    write_shard(tmp_path / "train-0.tar.gz", {f"{n:04d}": sample(n) for n in range(9)}, "w:gz")
    source = f"{tmp_path}/train-{{0..0}}.tar.gz"
    with pytest.raises(DataError, match=r"only be read from end to end; set --data\.stream true"):
        read_captions(source)
    scanned = scan_shards(source, tmp_path / "scan")
    assert sum(map(len, scanned.keys.values())) == 9


def test_pictures_that_cannot_be_read_are_left_out_of_the_stream(tmp_path: Path) -> None:
    bad = {"png": png(5)[:40], "txt": b"half a picture"}
    write_shard(tmp_path / "train-0.tar", {"0000": sample(0), "0005": bad, "0001": sample(1)})
    scanned = scan_shards(tmp_path, tmp_path / "scan", skip_bad=True)
    assert [list(own) for own in scanned.keys.values()] == [["0000", "0001"]]
    assert [facts.image.image_id for facts in scanned.skipped] == ["0005"]
    assert len(scan_shards(tmp_path, tmp_path / "other").captions) == 3


def test_a_set_that_changed_after_its_scan_is_told(shards: Path, tmp_path: Path) -> None:
    made = stream(shards, tmp_path / "scan", rank=0, world_size=1)
    write_shard(shards / "train-002.tar", {"0008": sample(8)})
    with pytest.raises(DataError, match=r"train-002\.tar: 10 pictures are gone since it was scanned"):
        list(made)


def test_the_command_trains_on_a_stream_and_keeps_its_val_pictures(shards: Path, tmp_path: Path, capsys) -> None:
    options = ["--data.captions", shards, "--data.stream", "true", "--data.feature_cache", tmp_path / "cache"]
    options += ["--output", tmp_path / "runs", "--name", "streamed", "--trainer.max_epochs", 2]
    assert call("train", *SMALL, *options) == 2
    assert "expected data.features none" in capsys.readouterr().err
    assert call("train", *SMALL, *options, "--data.features", "none") == 0
    predictions = json.loads((tmp_path / "runs" / "streamed" / "predictions.json").read_text())
    assert sorted(row["image_id"] for row in predictions) == ["0037", "0038", "0039"]
    assert torch.load(tmp_path / "runs/streamed/checkpoints/last.ckpt", weights_only=True)["epoch"] == 1
