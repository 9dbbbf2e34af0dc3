"""`captioning features` and the training that reads its store; tuned encoders and half precision from the command."""

import json

import pytest
import torch

import captioning
from tests.cli.conftest import SMALL, call

ENCODER = [
    *("--model.encoder.name", "resnet18", "--model.encoder.weights", "none", "--model.encoder.image_size", "64"),
    *("--model.encoder.fit", "squash"),
]
NETWORK = [argument for argument in SMALL if argument not in ("--model.encoder.name", "cells")]


def settings(drawn, *more):
    return (*NETWORK, *ENCODER, "--data.captions", drawn / "captions.jsonl", *more)


@pytest.fixture(scope="module")
def cache(drawn, tmp_path_factory):
    """A cache with the store that the command made."""
    folder = tmp_path_factory.mktemp("features")
    assert call("features", *settings(drawn, "--data.feature_cache", folder, "--data.mirror", "true")) == 0
    return folder


def test_the_store_holds_every_picture_and_training_reads_it(cache, drawn, tmp_path, capsys):
    [store] = cache.iterdir()
    index = json.loads((store / "index.json").read_text())
    assert index["key"]["encoder"] == "resnet18"
    assert index["key"]["views"] == ["plain", "mirror"]
    before = {path: path.stat().st_mtime_ns for path in store.iterdir() if path.suffix == ".safetensors"}
    arguments = settings(drawn, "--data.feature_cache", cache, "--data.mirror", "true", "--output", tmp_path)
    options = ("--trainer.max_epochs", 1, "--trainer.ema_decay", 0.9, "--name", "stored")
    assert call("train", *arguments, *options) == 0
    assert list(cache.iterdir()) == [store]
    assert {path: path.stat().st_mtime_ns for path in store.iterdir() if path.suffix == ".safetensors"} == before
    evaluation = ("--captions", drawn / "captions.jsonl", "--feature_cache", cache)
    assert call("evaluate", tmp_path / "stored", *evaluation) == 0
    assert list(cache.iterdir()) == [store]
    captioner = captioning.load(tmp_path / "stored")
    assert (captioner.encoder.rows, captioner.encoder.columns, captioner.encoder.width) == (2, 2, 512)


def test_a_store_of_another_encoder_is_refused_with_the_reason(cache, drawn, tmp_path, capsys):
    [store] = cache.iterdir()
    other = settings(drawn, "--data.features", store, "--output", tmp_path, "--model.encoder.layer", "layer3")
    assert call("train", *other, "--data.mirror", "true") == 2
    error = capsys.readouterr().err
    assert "layer: 'layer4' in the store, 'layer3' asked for" in error
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def trained_states(drawn, tmp_path_factory):
    """The tensors after an epoch: the last stage tuned on pictures or on a store of what lies below it, or frozen."""
    folder = tmp_path_factory.mktemp("tuned")
    tuned = ("--model.encoder.tune_from", "layer4")
    runs = {"pictures": ("none", *tuned), "store": ("auto", *tuned), "frozen": ("none",)}
    for name, (features, *options) in runs.items():
        data = ("--data.features", features, "--data.feature_cache", folder / "cache")
        arguments = settings(drawn, *data, *options, "--output", folder, "--name", name, "--trainer.max_epochs", 1)
        assert call("train", *arguments) == 0
    [store] = (folder / "cache").iterdir()
    assert '"layer": "layer3"' in (store / "index.json").read_text()
    return {
        name: torch.load(folder / name / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"] for name in runs
    }


def test_without_a_store_the_encoder_runs_at_every_step_and_may_be_tuned(trained_states):
    untouched = trained_states["frozen"]
    moved = {
        name.split(".")[3]
        for name, tensor in trained_states["pictures"].items()
        if name.startswith("captioner.encoder.") and not torch.equal(tensor, untouched[name])
    }
    assert moved == {"layer4"}


def test_a_store_of_the_frozen_part_trains_as_the_pictures_do(trained_states):
    """Only the rounding of the store to float16 lies between the two."""
    for name, tensor in trained_states["store"].items():
        torch.testing.assert_close(tensor, trained_states["pictures"][name], atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize("precision", ["bf16-mixed"])
def test_half_precision_scheduled_sampling_and_accumulation_together(drawn, tmp_path, precision):
    options = ("--trainer.precision", precision, "--objective.scheduled_sampling", "0.5", "--trainer.max_epochs", 2)
    more = ("--trainer.accumulate_grad_batches", 2, "--data.batch_size", 5, "--trainer.ema_decay", 0.9)
    arguments = (*SMALL, "--data.captions", drawn / "captions.jsonl", "--output", tmp_path, "--name", "half")
    assert call("train", *arguments, *options, *more, "--trainer.patience", 1) == 0
    captioner = captioning.load(tmp_path / "half")
    assert all(parameter.dtype == torch.float32 for parameter in captioner.parameters())
    assert all(parameter.isfinite().all() for parameter in captioner.parameters())
