"""Faults that people met in runs: resuming, checkpoints, processes, run folders. Named by their ids.

H20 is in tests/features/test_store.py (many workers read their own rows), H51 in tests/encoders/test_weights.py, H56
and H57 in tests/training/test_two_processes.py.
"""

import logging
import math
import subprocess
import sys
import time
from hashlib import sha256
from types import SimpleNamespace

import pytest
import torch
from pytorch_lightning.callbacks import Callback

import captioning
from captioning.build import build_captioner, describe_captioner
from captioning.checkpoint import load, save
from captioning.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from captioning.errors import CheckpointError
from captioning.metrics import Scores, score
from captioning.metrics.table import score_table
from captioning.text.vocabulary import SPECIAL_WORDS, Vocabulary
from captioning.training.callbacks import MovingAverage, Patience
from captioning.training.checkpoints import RunCheckpoints
from captioning.training.settings import OptimizerSettings
from tests.cli.conftest import SMALL, call
from tests.training import small_run

TWELVE = [*SPECIAL_WORDS, "a", "red", "blue", "circle", "star", "left", "of", "the"]


class BrokenOff(Exception):  # noqa: N818 (no error)
    """Raised where a run is to break off."""


class Watch(Callback):
    """The learning rate and the pictures of each step; breaks off before step `stop`."""

    def __init__(self, stop=None):
        self.stop, self.rates, self.images = stop, [], []

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == self.stop:
            raise BrokenOff
        self.rates.append([group["lr"] for group in trainer.optimizers[0].param_groups])
        self.images.append(batch.image_ids)


def train(folder, *, make, stop=None, ckpt_path=None, every_n_steps=None, callbacks=(), **settings):
    """A small run with checkpoints; the watch and, where it came to its end, the Trainer and module."""
    module, loaders = small_run.make(**make)
    watch = Watch(stop)
    checkpoints = RunCheckpoints(folder, monitor=f"validation/{module.monitor}", every_n_steps=every_n_steps)
    settings |= {"enable_checkpointing": True, "callbacks": [watch, *callbacks, checkpoints], "ckpt_path": ckpt_path}
    try:
        trainer = small_run.fit(module, loaders, **settings)
    except BrokenOff:
        trainer = None
    return SimpleNamespace(watch=watch, trainer=trainer, module=module, checkpoints=checkpoints)


def fresh_captioner():
    torch.manual_seed(1)
    model = ModelConfig(
        EncoderConfig(name="cells", weights="none"),
        AttentionConfig(width=7),
        DecoderConfig(state_width=11, word_width=5),
    )
    made = build_captioner(model, Vocabulary(TWELVE))
    return made, describe_captioner(made, model)


def test_H48_another_vocabulary_is_refused_by_both_sizes_and_the_first_word_that_differs(tmp_path):
    captioner, description = fresh_captioner()
    save(captioner, description, tmp_path / "model")
    own = Vocabulary(TWELVE).fingerprint()[:12]
    shorter = Vocabulary(TWELVE[:-1])
    with pytest.raises(CheckpointError, match=r"12 words .*against 11 .* first at number 11") as refused:
        load(tmp_path / "model", vocabulary=shorter)
    assert own in str(refused.value)
    assert shorter.fingerprint()[:12] in str(refused.value)
    swapped = [*TWELVE[:4], TWELVE[5], TWELVE[4], *TWELVE[6:]]
    with pytest.raises(CheckpointError, match=r'first at number 4 \("a" against "red"\)'):
        load(tmp_path / "model", vocabulary=Vocabulary(swapped))
    assert load(tmp_path / "model", vocabulary=Vocabulary(TWELVE)).vocabulary.words == tuple(TWELVE)
    assert load(tmp_path / "model").vocabulary.words == tuple(TWELVE)


EVERYTHING = (
    *("--model.attention.selection", "mixed", "--objective.name", "hard", "--objective.scheduled_sampling", "0.2"),
    *("--trainer.ema_decay", "0.9", "--trainer.patience", "2", "--optimizer.schedule", "plateau"),
    *("--optimizer.warmup_steps", "2", "--trainer.accumulate_grad_batches", "2", "--data.captions_per_image", "1"),
    *("--trainer.checkpoint_every_n_steps", "1", "--data.batch_size", "7", "--trainer.max_epochs", "1"),
)


@pytest.fixture(scope="module")
def everything(drawn, tmp_path_factory):
    """The folder of a run with all options set."""
    runs = tmp_path_factory.mktemp("everything")
    data = ("--data.captions", drawn / "captions.jsonl", "--output", runs, "--name", "everything")
    assert call("train", *SMALL, *EVERYTHING, *data) == 0
    return runs / "everything"


def test_H49_a_checkpoint_loads_where_this_package_is_not(everything):
    code = """
import sys
sys.modules["captioning"] = None
import torch
plain = (torch.Tensor, int, float, str, bool, type(None))
def check(value):
    if isinstance(value, dict):
        [check(each) for pair in value.items() for each in pair]
    elif isinstance(value, (list, tuple)):
        [check(each) for each in value]
    else:
        assert isinstance(value, plain), type(value)
for path in sys.argv[1:]:
    check(torch.load(path, weights_only=True))
"""
    paths = [everything / "checkpoints" / name for name in ("last.ckpt", "best.ckpt")]
    subprocess.run([sys.executable, "-c", code, *map(str, paths)], check=True, capture_output=True)


def test_H50_a_checkpoint_alone_rebuilds_the_captioner(everything, drawn, tmp_path, monkeypatch):
    file = tmp_path / "alone.ckpt"
    file.write_bytes((everything / "checkpoints" / "best.ckpt").read_bytes())
    monkeypatch.chdir(tmp_path)
    pictures = [drawn / f"val_{number:05d}.png" for number in range(3)]
    told, expected = (captioning.load(path).caption(pictures) for path in (file, everything))
    assert [(each.text, each.log_probabilities) for each in told] == [
        (each.text, each.log_probabilities) for each in expected
    ]
    description = torch.load(file, weights_only=True)["captioner"]
    assert all(size for name, size in description["model"]["decoder"].items() if name.endswith("_width"))
    assert len(description["vocabulary"]) > len(SPECIAL_WORDS)


PLATEAU = OptimizerSettings(
    name="sgd", learning_rate=0.1, schedule="plateau", plateau_patience=0, plateau_factor=0.1, warmup_steps=3
)
COSINE = OptimizerSettings(name="adam", learning_rate=0.1, schedule="cosine", warmup_steps=5)


@pytest.mark.parametrize(("optimizer", "validate_every"), [(PLATEAU, 1), (PLATEAU, 2), (COSINE, 1)])
def test_H52_rates_are_those_of_an_unbroken_run(optimizer, validate_every, tmp_path):
    settings = {
        "make": {"images": 6, "batch_size": 3, "optimizer": optimizer},
        "max_epochs": 6,
        "check_val_every_n_epoch": validate_every,
    }
    whole = train(tmp_path / "whole", **settings)
    assert len(set(map(tuple, whole.watch.rates))) > 3
    rates = []
    for start, stop in ((None, 2), (1, 6), (3, 8), (4, None)):
        last = None if start is None else tmp_path / "parts" / "last.ckpt"
        rates += train(tmp_path / "parts", stop=stop, ckpt_path=last, **settings).watch.rates
    assert rates == whole.watch.rates


def seven_batches(workers):
    return {"make": {"images": 14, "batch_size": 2, "workers": workers}, "max_epochs": 2, "limit_val_batches": 0}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """Two epochs of seven batches."""
    return train(tmp_path_factory.mktemp("unbroken"), **seven_batches(workers=0))


@pytest.mark.parametrize(("workers", "stop"), [(0, 3), (1, 3), (1, 7)])
def test_H53_a_run_that_stopped_within_an_epoch_goes_on_with_the_unseen_batches(workers, stop, unbroken, tmp_path):
    first = train(tmp_path, max_steps=stop, **seven_batches(workers))
    rest = train(tmp_path, ckpt_path=tmp_path / "last.ckpt", **seven_batches(workers))
    assert (len(first.watch.images), len(rest.watch.images)) == (stop, 14 - stop)
    assert first.watch.images + rest.watch.images == unbroken.watch.images
    assert sorted(sum(unbroken.watch.images[:7], ())) == sorted(f"{i}.png" for i in range(14))
    assert rest.trainer.global_step == 14
    assert_same(unbroken.module, rest.module)


def assert_same(one, other):
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


def with_an_average():
    """Accumulated batches, an average of the weights, and a step limit; checkpoints at steps 2, 3, 4 and 6."""
    return {
        "make": {"images": 12, "batch_size": 2, "optimizer": COSINE},
        "max_steps": 8,
        "max_epochs": 4,
        "accumulate_grad_batches": 2,
        "every_n_steps": 2,
        "callbacks": [MovingAverage(0.9)],
    }


@pytest.fixture(scope="module")
def averaged(tmp_path_factory):
    return train(tmp_path_factory.mktemp("averaged"), **with_an_average())


@pytest.mark.parametrize("stop", [3, 5, 7])
def test_a_run_that_broke_off_anywhere_comes_to_the_same_end(stop, averaged, tmp_path):
    train(tmp_path, stop=stop, **with_an_average())
    rest = train(tmp_path, ckpt_path=tmp_path / "last.ckpt", **with_an_average())
    assert rest.trainer.global_step == 8
    assert_same(averaged.module, rest.module)
    assert rest.checkpoints.state_dict() == averaged.checkpoints.state_dict()


def test_a_run_that_stopped_early_does_not_train_on(tmp_path):
    def settings():
        return {"make": {"images": 6, "batch_size": 3}, "max_epochs": 9, "callbacks": [stopper()]}

    def stopper():
        return Patience("validation/CIDEr-D", patience=1)

    first = train(tmp_path, **settings())
    assert first.trainer.current_epoch < 9
    again = train(tmp_path, ckpt_path=tmp_path / "last.ckpt", **settings())
    assert again.watch.images == []
    assert again.trainer.global_step == first.trainer.global_step


def test_H54_nan_is_never_the_best_and_does_not_end_the_run(tmp_path, caplog):
    module, loaders = small_run.make(4)
    values = iter([math.nan, 0.2, 0.3, math.nan])
    module.scorer.score = lambda predictions: Scores({"CIDEr-D": next(values)}, {}, {})
    checkpoints = RunCheckpoints(tmp_path, monitor="validation/CIDEr-D")
    callbacks = [Patience("validation/CIDEr-D", patience=3), checkpoints]
    with caplog.at_level(logging.WARNING):
        small_run.fit(module, loaders, max_epochs=4, enable_checkpointing=True, callbacks=callbacks)
    assert checkpoints.state_dict() == {"best_score": pytest.approx(0.3), "best_epoch": 3}
    assert torch.load(checkpoints.best_path, weights_only=True)["epoch"] == 2
    warnings = [record.getMessage() for record in caplog.records if "is not a number" in record.getMessage()]
    assert [text.split(":")[0] for text in warnings] == ["epoch 1", "epoch 4"]
    assert "n/a" in score_table({"run": Scores({"CIDEr-D": math.nan}, {}, {})})


def test_H55_a_frozen_encoder_stays_what_it_was(tmp_path):
    model = ModelConfig(
        EncoderConfig(name="resnet18", weights="none", image_size=96), AttentionConfig(width=7), small_run.MODEL.decoder
    )
    module, loaders = small_run.make(4, model=model)
    encoder = module.captioner.encoder

    def state():
        tensors = encoder.state_dict().items()
        return {name: sha256(tensor.contiguous().numpy().tobytes()).hexdigest() for name, tensor in tensors}

    pixels = loaders.train.pictures.read(loaders.train.captions.records[:2], None)
    before, features = state(), encoder(pixels[:1]).regions
    small_run.fit(module, loaders, max_epochs=2)
    assert state() == before
    module.train()
    assert torch.equal(encoder(pixels[:1]).regions, features)
    torch.testing.assert_close(encoder(pixels).regions[:1], features, atol=1e-4, rtol=1e-4)  # sums in another order


def test_H58_each_validation_is_scored_by_itself(tmp_path):
    module, loaders = small_run.make(4)
    seen = []

    class Metrics(Callback):
        def on_validation_end(self, trainer, pl_module):
            if not trainer.sanity_checking:
                references = small_run.captions(4).references
                expected = score(pl_module.predictions, references, metrics=("CIDEr-D",)).corpus["CIDEr-D"]
                seen.append((float(trainer.callback_metrics["validation/CIDEr-D"]), expected))

    checkpoints = RunCheckpoints(tmp_path, monitor="validation/CIDEr-D")
    settings = {"num_sanity_val_steps": 2, "max_epochs": 2, "enable_checkpointing": True}
    small_run.fit(module, loaders, callbacks=[Metrics(), checkpoints], **settings)
    assert len(seen) == 2
    for logged, expected in seen:
        assert logged == pytest.approx(expected, rel=1e-5)
    assert checkpoints.best_score == pytest.approx(max(logged for logged, _ in seen))


def test_H59_each_run_has_its_folder_and_a_taken_name_is_refused_at_once(drawn, tmp_path, capsys):
    step = (
        "train",
        *SMALL,
        "--data.captions",
        drawn / "captions.jsonl",
        "--trainer.max_steps",
        1,
        "--output",
        tmp_path,
    )
    assert call(*step) == 0
    assert call(*step, "--name", "mine") == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["captioner", "mine"]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    capsys.readouterr()
    started = time.monotonic()
    assert call(*step, "--name", "mine") == 2
    assert time.monotonic() - started < 60  # a guard: nothing was read or trained
    assert "give another --name, --overwrite true to replace it, or --ckpt_path last" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    (tmp_path / "mine" / "left").write_text("of the old run")
    assert call(*step, "--name", "mine", "--overwrite", "true") == 0
    assert not (tmp_path / "mine" / "left").exists()
    assert (tmp_path / "mine" / "model" / "captioner.json").is_file()


def test_H60_a_run_does_not_depend_on_those_before_it(drawn, tmp_path):
    runs = {"a": ("--model.attention.score", "dot"), "b": ("--model.decoder.dropout", "0.3", "--seed", "5")}
    data = ("--data.captions", drawn / "captions.jsonl", "--trainer.max_steps", 2, "--data.batch_size", 5)
    ended = {}
    for order in ("ab", "ba"):
        for name in order:
            place = ("--output", tmp_path / order, "--name", name)
            assert call("train", *SMALL, *data, *runs[name], *place) == 0
            files = ("model/weights.safetensors", "predictions.json", "scores.json")
            ended.setdefault(name, []).append([(tmp_path / order / name / file).read_bytes() for file in files])
    for name, (first, second) in ended.items():
        assert first == second, name
