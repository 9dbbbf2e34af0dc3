"""A captioner from a stranger: nothing in it is run, what is damaged is refused, and what does not fit is named."""

import json
import pickle
import random
import shutil
from pathlib import Path

import pytest
import torch

import captioning
from captioning.build import build_encoder
from captioning.config import EncoderConfig
from captioning.errors import CheckpointError, StoreError, WeightsError
from captioning.features.store import FeatureStore
from captioning.training.checkpoint_files import read_checkpoint
from tests.cli.conftest import SMALL, call, drawn, trained

__all__ = ["drawn", "trained"]


class Evil:
    """When unpickled by a careless reader, it makes a folder."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return Path.mkdir, (self.trace,)


@pytest.fixture
def evil(tmp_path):
    trace = tmp_path / "it-was-run"
    pickle.loads(pickle.dumps(Evil(trace)))
    assert trace.is_dir()  # so it does what it is for
    trace.rmdir()
    yield Evil(trace)
    assert not trace.exists()


@pytest.fixture
def model(trained, tmp_path):
    """A copy of a captioner's folder."""
    return shutil.copytree(trained / "model", tmp_path / "model")


def write_pickle(path, content):
    path.write_bytes(pickle.dumps(content))


def write_old_torch(path, content):
    torch.save(content, path, _use_new_zipfile_serialization=False)


WRITERS = [write_pickle, write_old_torch, lambda path, content: torch.save(content, path)]


@pytest.mark.parametrize("write", WRITERS, ids=["pickle", "old torch", "torch"])
@pytest.mark.parametrize("name", ["weights.safetensors", "captioner.json"])
def test_a_pickle_in_a_model_folder_is_not_run(write, name, model, evil):
    write(model / name, evil)
    with pytest.raises(CheckpointError, match=name):
        captioning.load(model)


@pytest.mark.parametrize("write", WRITERS, ids=["pickle", "old torch", "torch"])
@pytest.mark.parametrize("wrap", [lambda evil: evil, lambda evil: {"captioner": {}, "state_dict": evil}])
def test_a_pickle_as_a_checkpoint_is_not_run(write, wrap, evil, drawn, tmp_path, capsys):
    path = tmp_path / "last.ckpt"
    write(path, wrap(evil))
    with pytest.raises(CheckpointError, match=r"last\.ckpt"):
        captioning.load(path)
    run = ("train", *SMALL, "--data.captions", drawn / "captions.jsonl", "--output", tmp_path / "runs")
    assert call(*run, "--ckpt_path", path) == 2
    assert "last.ckpt" in capsys.readouterr().err


def test_a_pickle_as_encoder_weights_or_in_a_store_is_not_run(evil, tmp_path):
    torch.save(evil, tmp_path / "weights.pth")
    with pytest.raises(WeightsError, match=r"weights\.pth"):
        build_encoder(EncoderConfig(name="resnet18", weights=str(tmp_path / "weights.pth")))
    write_pickle(tmp_path / "index.json", evil)
    with pytest.raises(StoreError, match=r"index\.json"):
        FeatureStore.open(tmp_path)


def flipped(content, position, bit):
    return content[:position] + bytes([content[position] ^ 1 << bit]) + content[position + 1 :]


@pytest.mark.parametrize("name", ["model/weights.safetensors", "model/captioner.json", "checkpoints/best.ckpt"])
def test_a_flipped_bit_or_a_missing_end_is_refused(name, trained, tmp_path):
    """Or it is one that nothing reads (a space, padding of an archive), and all is as it was."""
    copy = shutil.copytree(trained, tmp_path / "run")
    path, whole = copy / name, (trained / name).read_bytes()
    target = path if path.suffix == ".ckpt" else path.parent
    expected = captioning.load(target)
    draw, refused = random.Random(name), 0
    damaged = [flipped(whole, draw.randrange(len(whole)), draw.randrange(8)) for _ in range(60)]
    damaged += [whole[: draw.randrange(len(whole))] for _ in range(15)]
    for content in damaged:
        path.write_bytes(content)
        try:
            found = captioning.load(target)
        except CheckpointError as error:
            refused += path.name in str(error)
        else:
            assert found.vocabulary == expected.vocabulary
            for key, tensor in expected.state_dict().items():
                assert torch.equal(found.state_dict()[key], tensor)
    assert refused >= 60


def test_where_the_newest_checkpoint_is_damaged_the_run_goes_on_from_another(trained, drawn, tmp_path, caplog):
    for name in ("whole", "damaged"):
        shutil.copytree(trained, tmp_path / name)
    last = tmp_path / "damaged" / "checkpoints" / "last.ckpt"
    content = bytearray(last.read_bytes())
    content[len(content) // 2] ^= 1
    last.write_bytes(content)
    with pytest.raises(CheckpointError, match="checksum"):
        read_checkpoint(last)
    run = ("train", *SMALL, "--data.captions", drawn / "captions.jsonl", "--output", tmp_path, "--ckpt_path", "last")
    for name in ("whole", "damaged"):
        assert call(*run, "--trainer.max_epochs", 2, "--name", name) == 0
    assert "trying an earlier one" in caplog.text
    ends = [
        read_checkpoint(tmp_path / name / "checkpoints" / "last.ckpt")["state_dict"] for name in ("whole", "damaged")
    ]
    assert all(torch.equal(tensor, ends[1][name]) for name, tensor in ends[0].items())


def rewrite(folder, **changes):
    """As a program of another version would have written it."""
    path = folder / "captioner.json"
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))


def test_the_older_format_is_migrated_and_a_newer_one_refused_by_name(model, trained):
    rewrite(model, format=1, description_sha256=None, fingerprints=None)
    migrated = captioning.load(model)
    for name, tensor in captioning.load(trained).state_dict().items():
        assert torch.equal(migrated.state_dict()[name], tensor)
    description = {"format": 3, "versions": {"captioning": "9.9.9"}}
    (model / "captioner.json").write_text(json.dumps({**description, "description_sha256": checksum(description)}))
    with pytest.raises(CheckpointError, match=rf"got 3; .* captioning 9\.9\.9, this is {captioning.__version__}"):
        captioning.load(model)


def checksum(description):
    from captioning.checkpoint import _description_hash

    return _description_hash(description)


@pytest.mark.parametrize("change", [{"vocabulary": None}, {"model": {}}, {"encoder": {"rows": "six"}}, {"search": 5}])
def test_a_description_of_something_else_is_refused(change, model):
    rewrite(model, format=1, **change)
    with pytest.raises(CheckpointError, match="its description is not that of a captioner"):
        captioning.load(model)


def test_another_encoder_is_refused_with_both_fingerprints(trained):
    captioner = captioning.load(trained)
    assert captioning.load(trained, encoder=captioner.encoder)
    torch.manual_seed(0)
    other = build_encoder(EncoderConfig(name="cells", weights="none"))
    with pytest.raises(CheckpointError) as refused:
        captioning.load(trained, encoder=other)
    assert captioner.encoder.fingerprint()[:12] in str(refused.value)
    assert other.fingerprint()[:12] in str(refused.value)


WRONG = [
    (("--model.decoder.state_width", 13), "model.decoder.state_width: 12 in the checkpoint, 13 asked for"),
    (("--data.maximum_words", 9), "against 9"),
    (("--trainer.max_epochs", 0), "current_epoch=1"),
]


@pytest.mark.parametrize(("change", "told"), WRONG, ids=lambda value: str(value[0]) if isinstance(value, tuple) else "")
def test_a_run_goes_on_only_with_its_own_settings(change, told, trained, drawn, tmp_path, capsys):
    shutil.copytree(trained, tmp_path / "run")
    run = ("train", *SMALL, "--data.captions", drawn / "captions.jsonl", "--output", tmp_path, "--name", "run")
    assert call(*run, "--ckpt_path", "last", *change) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "Traceback" not in error
