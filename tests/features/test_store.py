import json
import multiprocessing
import pickle
import resource
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.context import ForkProcess as Process
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from captioning.errors import StoreError
from captioning.features.image_features import ImageFeatures
from captioning.features.store import FeatureStore, StoreKey
from captioning.features.store_writer import write_store

ROWS, COLUMNS, WIDTH = 2, 3, 5
KEY = StoreKey(
    encoder="resnet18",
    weights="a1",
    layer="layer4",
    preprocessing={"size": 224, "mean": (0.1, 0.2, 0.3)},
    views=("plain", "mirror"),
)
IDS = tuple(f"picture {number}.jpg" for number in range(17))

Batch = tuple[Sequence[str], tuple[ImageFeatures, ...]]


def features(image_ids: Sequence[str], view: int) -> ImageFeatures:
    """Whole numbers that tell picture, view, region and channel: exact in every type that a store knows."""
    numbers = torch.tensor([float(image_id.split()[1].removesuffix(".jpg")) for image_id in image_ids])
    cells = torch.arange(float(ROWS * COLUMNS * WIDTH)).reshape(ROWS * COLUMNS, WIDTH)
    return ImageFeatures(100 * view + cells + numbers[:, None, None], ROWS, COLUMNS)


class Encoding:
    """Encodes two pictures at a time, and remembers what it was asked for."""

    def __init__(self, views: int = 2) -> None:
        self.asked: list[str] = []
        self.views = views

    def __call__(self, image_ids: Sequence[str]) -> Iterator[Batch]:
        self.asked += image_ids
        for start in range(0, len(image_ids), 2):
            ids = image_ids[start : start + 2]
            yield ids, tuple(features(ids, view) for view in range(self.views))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_store(tmp_path / "store", KEY, IDS, Encoding(), shard_size=6)
    return tmp_path / "store"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_what_is_written_is_read(tmp_path: Path, dtype: str) -> None:
    key = replace(KEY, dtype=dtype)
    store = write_store(tmp_path, key, IDS, Encoding(), shard_size=6)
    assert (len(store), store.rows, store.columns, store.width) == (17, ROWS, COLUMNS, WIDTH)
    assert store.image_ids == IDS
    assert IDS[3] in store
    assert "other.jpg" not in store
    chosen = [IDS[i] for i in (16, 0, 5, 11, 0)]
    for view in (0, 1):
        read = store.read(chosen, view)
        assert (read.rows, read.columns, read.regions.dtype) == (ROWS, COLUMNS, torch.float32)
        assert torch.equal(read.regions, features(chosen, view).regions)


def test_each_picture_may_have_its_own_view(folder: Path) -> None:
    chosen, views = [IDS[7], IDS[2], IDS[7]], [1, 0, 0]
    read = FeatureStore.open(folder).read(chosen, views)
    expected = [features([image_id], view).regions for image_id, view in zip(chosen, views, strict=True)]
    assert torch.equal(read.regions, torch.cat(expected))


@pytest.mark.parametrize("view", [2, -1, [0], [0, 2]])
def test_an_unknown_view_is_refused(folder: Path, view: int | list[int]) -> None:
    with pytest.raises(StoreError, match=r"views: expected one of 0\.\.1 for each picture"):
        FeatureStore.open(folder).read(IDS[:2], view)


def test_shards_hold_whole_batches(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "index.json",
        "lock",
        *(f"shard-0000{number}.safetensors" for number in range(3)),
    ]


def test_an_unknown_picture_is_named(folder: Path) -> None:
    with pytest.raises(StoreError, match=r"no picture 'other\.jpg' among its 17"):
        FeatureStore.open(folder).read(["other.jpg"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"encoder": "vgg19"}, "encoder: 'resnet18' in the store, 'vgg19' asked for"),
        ({"weights": "b2"}, "weights: 'a1' in the store, 'b2' asked for"),
        ({"layer": "layer3"}, "layer: 'layer4' in the store, 'layer3' asked for"),
        (
            {"preprocessing": {"size": 448, "mean": (0.1, 0.2, 0.3)}},
            "preprocessing.size: 224 in the store, 448 asked for",
        ),
        ({"views": ("plain",)}, "views: ['plain', 'mirror'] in the store, ['plain'] asked for"),
        ({"dtype": "float32"}, "dtype: 'float16' in the store, 'float32' asked for"),
    ],
    ids=["encoder", "weights", "layer", "preprocessing", "views", "dtype"],
)
def test_a_store_made_otherwise_is_refused_with_the_reason(folder: Path, change: dict, told: str) -> None:
    other = replace(KEY, **change)
    before, encoding = snapshot(folder), Encoding()
    for attempt in (
        lambda: FeatureStore.open(folder, other),
        lambda: write_store(folder, other, IDS, encoding),
    ):
        with pytest.raises(StoreError) as refused:
            attempt()
        assert told in str(refused.value)
        assert str(refused.value).count("asked for") == 1
    assert snapshot(folder) == before
    assert encoding.asked == []
    assert other.fingerprint() != KEY.fingerprint()


def test_the_same_key_opens_whatever_way_it_was_kept(folder: Path) -> None:
    again = StoreKey.from_dict(json.loads(json.dumps(KEY.to_dict())))
    assert again.fingerprint() == KEY.fingerprint()
    assert len(FeatureStore.open(folder, again)) == 17


@pytest.mark.parametrize(
    ("change", "told"),
    [({"dtype": "int8"}, "dtype: expected one of float16"), ({"views": ()}, "views: expected one or more")],
)
def test_a_key_that_cannot_be_is_refused(change: dict, told: str) -> None:
    with pytest.raises(StoreError, match=told):
        replace(KEY, **change)


def test_new_pictures_are_added_and_old_shards_left_alone(folder: Path) -> None:
    before, encoding = snapshot(folder), Encoding()
    more = (*IDS, "picture 30.jpg", "picture 31.jpg")
    store = write_store(folder, KEY, more, encoding)
    assert encoding.asked == ["picture 30.jpg", "picture 31.jpg"]
    assert torch.equal(store.read(more, 1).regions, features(more, 1).regions)
    after = snapshot(folder)
    assert {name for name in before if after[name] != before[name]} == {"index.json"}


def test_a_whole_store_is_not_encoded_again(folder: Path) -> None:
    encoding = Encoding()
    write_store(folder, KEY, IDS, encoding)
    assert encoding.asked == []


def test_progress_counts_what_was_there(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    more = (*IDS, "picture 30.jpg", "picture 31.jpg", "picture 32.jpg")
    write_store(folder, KEY, more, Encoding(), progress=lambda done, total: told.append((done, total)))
    assert told == [(19, 20), (20, 20)]


def test_a_picture_that_was_left_out_stays_missing_until_it_comes(tmp_path: Path) -> None:
    def without_the_broken(image_ids: Sequence[str]) -> Iterator[Batch]:
        return Encoding()([image_id for image_id in image_ids if image_id != IDS[4]])

    assert IDS[4] not in write_store(tmp_path, KEY, IDS, without_the_broken)
    encoding = Encoding()
    assert IDS[4] in write_store(tmp_path, KEY, IDS, encoding)
    assert encoding.asked == [IDS[4]]


def test_a_picture_given_twice_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=rf"picture '{IDS[1]}' is given twice"):
        write_store(tmp_path, KEY, [*IDS, IDS[1]], Encoding())


def test_a_picture_that_was_not_asked_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"'picture 40\.jpg' was not asked for"):
        write_store(tmp_path, KEY, IDS, lambda ids: Encoding()(["picture 40.jpg"]))


def test_a_picture_that_comes_twice_is_refused(tmp_path: Path) -> None:
    def stuttering(image_ids: Sequence[str]) -> Iterator[Batch]:
        for batch in Encoding()(image_ids):
            yield from (batch, batch)

    with pytest.raises(StoreError, match=rf"'{IDS[0]}' was not asked for, or came twice"):
        write_store(tmp_path, KEY, IDS, stuttering)


def test_a_missing_view_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"expected 2 pictures in the views plain, mirror, got \[2\]"):
        write_store(tmp_path, KEY, IDS, Encoding(views=1))


def test_a_store_of_no_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="empty, as none of 17 pictures was encoded"):
        write_store(tmp_path, KEY, IDS, lambda ids: ())


def test_a_grid_that_changes_is_refused(folder: Path) -> None:
    def turned(image_ids: Sequence[str]) -> Iterator[Batch]:
        for ids, views in Encoding()(image_ids):
            yield ids, tuple(ImageFeatures(view.regions, COLUMNS, ROWS) for view in views)

    with pytest.raises(StoreError, match=r"expected .* \(2, 3, 5\) without a mask, got \(3, 2, 5\)"):
        write_store(folder, KEY, [*IDS, "picture 30.jpg"], turned)


def test_numbers_beyond_float16_are_refused_and_bfloat16_holds_them(tmp_path: Path) -> None:
    def large(image_ids: Sequence[str]) -> Iterator[Batch]:
        for ids, (plain, mirror) in Encoding()(image_ids):
            if IDS[5] in ids:
                mirror.regions[ids.index(IDS[5]), 1, 2] = 70000.0
            yield ids, (plain, mirror)

    with pytest.raises(StoreError, match=rf"float16 can't hold those of picture '{IDS[5]}' \(largest: 70000\)"):
        write_store(tmp_path / "float16", KEY, IDS, large)
    store = write_store(tmp_path / "bfloat16", replace(KEY, dtype="bfloat16"), IDS, large)
    assert store.read([IDS[5]], 1).regions[0, 1, 2] == pytest.approx(70000, rel=2**-8)


@pytest.mark.parametrize("keep", [0, 5, -7])
@pytest.mark.parametrize("name", ["shard-00001.safetensors", "index.json"])
def test_a_cut_off_file_is_named(folder: Path, name: str, keep: int) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:keep])
    with pytest.raises(StoreError, match=f"{name}.* damaged"):
        FeatureStore.open(folder)


def test_a_shard_of_another_store_is_refused(folder: Path, tmp_path: Path) -> None:
    write_store(tmp_path / "other", replace(KEY, views=("plain",)), IDS, Encoding(views=1))
    (tmp_path / "other" / "shard-00000.safetensors").replace(folder / "shard-00001.safetensors")
    with pytest.raises(StoreError, match=r"shard-00001.*: expected \(17, 2, 6, 5\), got \(17, 1, 6, 5\)"):
        FeatureStore.open(folder)


def test_a_missing_shard_is_named(folder: Path) -> None:
    (folder / "shard-00001.safetensors").unlink()
    with pytest.raises(StoreError, match=r"shard-00001\.safetensors: damaged"):
        FeatureStore.open(folder)


def test_a_folder_without_a_store_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none there \(no index\.json\)"):
        FeatureStore.open(tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="can't write there"):
        write_store(tmp_path / "file" / "store", KEY, IDS, Encoding())


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than cores, on purpose
@pytest.mark.parametrize(
    ("method", "workers", "used_before"),
    [(None, 0, False), ("fork", 2, False), ("fork", 4, True), ("spawn", 1, True)],
)
def test_H20_many_workers_read_their_own_rows(
    folder: Path, method: str | None, workers: int, used_before: bool
) -> None:
    store = FeatureStore.open(folder)
    if used_before:
        store.read(IDS)
    loader = DataLoader(
        IDS,
        batch_size=3,
        num_workers=workers,
        multiprocessing_context=method,
        persistent_workers=workers > 0,
        collate_fn=partial(store.read, view=1),
    )
    for _ in range(2):
        read = torch.cat([batch.regions for batch in loader])
        assert torch.equal(read, features(IDS, 1).regions)


def test_a_store_is_pickled_as_names_and_places(folder: Path) -> None:
    store = FeatureStore.open(folder)
    fresh = pickle.dumps(store)
    store.read(IDS)
    used = pickle.dumps(store)
    assert len(used) == len(fresh)
    for pickled in (fresh, used):
        assert torch.equal(pickle.loads(pickled).read(IDS).regions, features(IDS, 0).regions)


def write_slowly(folder: Path) -> None:
    def slowly(image_ids: Sequence[str]) -> Iterator[Batch]:
        for batch in Encoding()(image_ids):
            yield batch
            time.sleep(0.05)

    write_store(folder, KEY, IDS, slowly, shard_size=4)


@pytest.fixture
def slow_writer(tmp_path: Path) -> Iterator[Process]:
    """Another process that has written a shard of tmp_path / "store", and goes on."""
    process = multiprocessing.get_context("fork").Process(target=write_slowly, args=(tmp_path / "store",))
    process.start()
    while not (tmp_path / "store" / "index.json").exists():
        assert process.is_alive()
        time.sleep(0.005)
    yield process
    process.kill()
    process.join()


def test_a_killed_writer_loses_no_finished_shard(tmp_path: Path, slow_writer: Process) -> None:
    slow_writer.kill()
    slow_writer.join()
    assert slow_writer.exitcode == -signal.SIGKILL
    left = FeatureStore.open(tmp_path / "store", KEY)
    assert 4 <= len(left) < len(IDS)
    assert torch.equal(left.read(left.image_ids, 1).regions, features(left.image_ids, 1).regions)
    before, encoding = snapshot(tmp_path / "store"), Encoding()
    store = write_store(tmp_path / "store", KEY, IDS, encoding, shard_size=4)
    assert encoding.asked == [image_id for image_id in IDS if image_id not in left]
    assert torch.equal(store.read(IDS).regions, features(IDS, 0).regions)
    after = snapshot(tmp_path / "store")
    assert all(after[name] == before[name] for name in left.shards)
    assert not any(name.endswith(".partial") for name in after)


def test_a_second_writer_is_turned_away(tmp_path: Path, slow_writer: Process) -> None:
    encoding = Encoding()
    with pytest.raises(StoreError, match=f"being written by process {slow_writer.pid}; wait"):
        write_store(tmp_path / "store", KEY, IDS, encoding)
    assert encoding.asked == []


def test_a_second_writer_may_wait_and_finds_the_store_made(
    tmp_path: Path, slow_writer: Process, caplog: pytest.LogCaptureFixture
) -> None:
    encoding = Encoding()
    store = write_store(tmp_path / "store", KEY, IDS, encoding, wait=True)
    assert encoding.asked == []
    assert len(store) == 17
    assert f"being written by process {slow_writer.pid}; waiting for it" in caplog.text


def test_a_waiting_writer_goes_on_where_the_first_one_dies(tmp_path: Path, slow_writer: Process) -> None:
    killing = threading.Timer(0.1, slow_writer.kill)
    killing.start()
    encoding = Encoding()
    store = write_store(tmp_path / "store", KEY, IDS, encoding, wait=True)
    killing.join()
    assert 0 < len(encoding.asked) < 17
    assert torch.equal(store.read(IDS).regions, features(IDS, 0).regions)


def test_a_reader_meanwhile_sees_finished_shards(tmp_path: Path, slow_writer: Process) -> None:
    store = FeatureStore.open(tmp_path / "store", KEY)
    assert torch.equal(store.read(store.image_ids).regions, features(store.image_ids, 0).regions)


@pytest.mark.parametrize(("limit", "name"), [(100, "shard-00003.safetensors"), (300, "index.json")])
def test_a_write_that_fails_leaves_the_earlier_files_whole(folder: Path, limit: int, name: str) -> None:
    before, more = snapshot(folder), [*IDS, "picture 30.jpg"]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))  # as a full disk would: no file grows beyond
    try:
        with pytest.raises(StoreError, match=rf"can't write {name} \(File too large\); its 3 finished"):
            write_store(folder, KEY, more, Encoding())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert snapshot(folder).items() >= before.items()
    assert list(folder.glob("*.partial")) == []
    assert FeatureStore.open(folder, KEY).image_ids == IDS
    assert torch.equal(write_store(folder, KEY, more, Encoding()).read(more).regions, features(more, 0).regions)
