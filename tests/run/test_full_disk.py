"""A disk without room: one line, and what was written before is whole. A limit on the size of files stands for it."""

import resource
import shutil
import signal
from contextlib import contextmanager

import pytest
import torch

from captioning.disk import whole_folder, write_json, write_whole
from captioning.errors import DiskError
from captioning.run.folder import find_checkpoint
from tests.cli.conftest import SMALL, call
from tests.cli.test_train import snapshot


@contextmanager
def no_file_beyond(limit):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_file_that_finds_no_room_leaves_the_earlier_one(tmp_path):
    write_json(tmp_path / "scores.json", {"BLEU-4": 0.3})
    before = snapshot(tmp_path)
    with no_file_beyond(100), pytest.raises(DiskError, match=r"scores\.json: can't be written \(File too large\)"):
        write_whole(tmp_path / "scores.json", bytes(101))
    assert snapshot(tmp_path) == before


def write_model(folder, weights):
    with whole_folder(folder) as fresh:
        write_whole(fresh / "description", b"")
        write_whole(fresh / "weights", weights)


def test_a_folder_that_finds_no_room_leaves_the_earlier_one(tmp_path):
    for content in (b"old", b"new"):
        write_model(tmp_path / "model", content)
    before = snapshot(tmp_path)
    with no_file_beyond(100), pytest.raises(DiskError):
        write_model(tmp_path / "model", bytes(101))
    assert snapshot(tmp_path) == before
    assert (tmp_path / "model" / "weights").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("limit", [10, 10_000, 100_000], ids=lambda limit: f"{limit} bytes")
def test_a_run_on_a_full_disk_says_so_and_can_be_gone_on_with(limit, trained, drawn, tmp_path, capsys):
    """At 10 bytes nothing can be written, not the config; at 10,000 no page of samples, at 100,000 no checkpoint."""
    shutil.copytree(trained, tmp_path / "mine")
    run = ("train", *SMALL, "--data.captions", drawn / "captions.jsonl", "--output", tmp_path, "--name", "mine")
    before = snapshot(tmp_path)
    capsys.readouterr()
    with no_file_beyond(limit):
        assert call(*run, "--trainer.max_epochs", 2, "--ckpt_path", "last") == 2
    error = capsys.readouterr().err
    assert "can't be written (File too large" in error
    assert "Traceback" not in error
    whole = [path for path in before if path.suffix in (".ckpt", ".safetensors", ".json", ".html")]
    after = snapshot(tmp_path)
    assert {path: after[path] for path in whole} == {path: before[path] for path in whole}
    found = find_checkpoint(tmp_path / "mine", "last", named=True)
    assert torch.load(found, weights_only=True)["epoch"] == 0
