"""`captioning train`: what it writes, how it goes on, and what it says to a wrong call."""

import csv
import hashlib
import json
import shutil

import pytest
import torch
import yaml

import captioning
from captioning.cli.settings import parse_training_config
from captioning.config import TrainingConfig
from captioning.errors import ConfigError
from captioning.text.vocabulary import Vocabulary
from tests.cli.conftest import SMALL, call


def settings(drawn, runs, *more):
    return ("train", *SMALL, "--data.captions", drawn / "captions.jsonl", "--output", runs, *more)


def snapshot(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_run_leaves_config_log_checkpoints_model_samples_predictions_and_scores(trained):
    config = yaml.safe_load((trained / "config.yaml").read_text())
    assert config["model"]["decoder"]["state_width"] == 12
    log = (trained / "log" / "version_0" / "metrics.csv").read_text()
    assert "validation/CIDEr-D" in log.split("\n")[0]
    for name in ("checkpoints/best.ckpt", "checkpoints/last.ckpt", "samples/epoch_001.html", "tensorboard"):
        assert (trained / name).exists()
    predictions = json.loads((trained / "predictions.json").read_text())
    assert {row["image_id"] for row in predictions} == {f"val_{i:05d}.png" for i in range(6)}
    scores = json.loads((trained / "scores.json").read_text())
    assert {"BLEU-4", "BLEU-4-no-penalty", "ROUGE-L", "CIDEr-D"} <= scores["scores"].keys()
    assert scores["beam_size"] == 5
    assert "expected" in scores["test_time_rule"]


def test_checkpoint_and_model_folder_hold_the_same_captioner(trained, drawn):
    picture = drawn / "test_00000.png"
    texts = {
        captioning.load(trained / name).caption([picture])[0].text for name in ("", "model", "checkpoints/best.ckpt")
    }
    assert len(texts) == 1


def test_the_checkpoint_holds_plain_types_only(trained):
    checkpoint = torch.load(trained / "checkpoints" / "last.ckpt", weights_only=True)

    def plain(value):
        if isinstance(value, dict):
            return all(plain(key) and plain(each) for key, each in value.items())
        if isinstance(value, list | tuple):
            return all(plain(each) for each in value)
        return value is None or isinstance(value, torch.Tensor | int | float | str | bool)

    assert plain(checkpoint)


def test_resuming_goes_on_where_the_run_stopped(drawn, tmp_path):
    whole = settings(drawn, tmp_path, "--name", "whole", "--trainer.max_epochs", 3, "--trainer.ema_decay", 0.9)
    assert call(*whole) == 0
    parts = settings(drawn, tmp_path, "--name", "parts", "--trainer.ema_decay", 0.9)
    assert call(*parts, "--trainer.max_epochs", 1) == 0
    assert call(*parts, "--trainer.max_epochs", 3, "--ckpt_path", "last") == 0
    one, other = (
        torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
        for name in ("whole", "parts")
    )
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=0, atol=0)


def test_a_name_that_is_taken_is_refused_and_nothing_changes(trained, drawn, capsys):
    before = snapshot(trained)
    assert call(*settings(drawn, trained.parent, "--name", "small")) == 2
    assert "--overwrite true to replace it, or --ckpt_path last" in capsys.readouterr().err
    assert snapshot(trained) == before


def test_runs_without_a_name_get_numbers_and_overwrite_replaces(drawn, tmp_path):
    for _ in range(2):
        assert call(*settings(drawn, tmp_path, "--trainer.max_steps", 1)) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["captioner", "captioner-2"]
    (tmp_path / "captioner" / "mine.txt").write_text("old")
    again = settings(drawn, tmp_path, "--name", "captioner", "--overwrite", "true", "--trainer.max_steps", 1)
    assert call(*again) == 0
    assert not (tmp_path / "captioner" / "mine.txt").exists()


def test_init_from_takes_weights_and_the_rows_of_shared_words(trained, drawn, tmp_path, capsys, caplog):
    other = tmp_path / "other.csv"
    rows = [(drawn / f"train_{i:05d}.png", f"a red zebra {i % 3}") for i in range(6)]
    splits = ["train"] * 3 + ["val"] * 3
    other.write_text(
        "image,caption,split\n" + "".join(f"{p},{c},{s}\n" for (p, c), s in zip(rows, splits, strict=True))
    )
    options = (
        *SMALL,
        "--data.captions",
        other,
        "--output",
        tmp_path,
        "--name",
        "mine",
        "--trainer.max_epochs",
        0,
    )
    with caplog.at_level("WARNING"):
        assert call("train", *options, "--init_from", trained) == 0
    old, new = captioning.load(trained), captioning.load(tmp_path / "mine")
    shared = [word for word in new.vocabulary.words[4:] if word in old.vocabulary]
    assert "red" in shared
    assert "zebra" not in old.vocabulary
    for word in shared:
        row = new.decoder.embedding.weight[new.vocabulary[word]]
        torch.testing.assert_close(row, old.decoder.embedding.weight[old.vocabulary[word]])
    torch.testing.assert_close(new.decoder.state_gates.weight, old.decoder.state_gates.weight)
    assert f"{len(shared) + 4} shared words" in caplog.text


def test_another_vocabulary_is_refused(trained):
    words = list(captioning.load(trained).vocabulary.words)
    with pytest.raises(captioning.errors.CheckpointError):
        captioning.load(trained, vocabulary=Vocabulary(words[:-1]))
    swapped = [*words[:-2], words[-1], words[-2]]
    with pytest.raises(captioning.errors.CheckpointError):
        captioning.load(trained, vocabulary=Vocabulary(swapped))


def test_a_setting_of_another_version_is_named(trained, tmp_path):
    shutil.copytree(trained / "model", tmp_path / "model")
    description = tmp_path / "model" / "captioner.json"
    content = json.loads(description.read_text())
    content["model"]["decoder"]["memory_width"] = 7
    content["format"] = 1  # without a checksum of the description
    description.write_text(json.dumps(content))
    with pytest.raises(captioning.errors.CheckpointError, match=r"DecoderConfig: .* does not know memory_width"):
        captioning.load(tmp_path / "model")


WRONG_CALLS = [
    (["--modle.attention.score", "dot"], "did you mean model.attention.score?"),
    (["--model.attention.score", "dott", "--data.format", "drawn"], "did you mean 'dot'?"),
    (["--model.attention.selection", "hard", "--data.format", "drawn"], "train with soft or gumbel"),
    (["--objective.name", "hard", "--data.format", "drawn"], "expected model.attention.selection hard or mixed"),
    (
        ["--objective.glimpses", "2", "--data.format", "drawn"],
        "objective.glimpses: expected 1 with objective.name cross_entropy",
    ),
    (["--trainer.max_epochs", "three"], "Expected int. Got value: three"),
    (["--model.decoder.gate", "matrix"], "one of scalar, vector, none"),
    (["--config", "nowhere.yaml"], "nowhere.yaml"),
    (["--data.captions", "nowhere.csv"], "nowhere.csv"),
    (["--data.format", "auto"], "data.captions: expected the caption file"),
    (["--ckpt_path", "last", "--data.format", "drawn"], "found none"),
    (["--ckpt_path", "no.ckpt", "--name", "nothing", "--data.format", "drawn"], "found none"),
    (["--init_from", "nowhere", "--data.format", "drawn"], "there is no such file or folder"),
    (["--model.encoder.name", "resnet5O", "--data.format", "drawn"], "resnet50"),
    (["--trainer.monitor", "CIDER", "--data.format", "drawn"], "CIDEr-D"),
]


@pytest.mark.parametrize(
    ("arguments", "told"), WRONG_CALLS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_wrong_call_gets_one_clear_line_and_writes_nothing(arguments, told, tmp_path, capsys):
    small = [*SMALL, "--data.drawn_train", "20", "--data.drawn_test", "2"]
    assert call("train", *small, "--output", tmp_path, *arguments) == 2
    error = capsys.readouterr().err.strip()
    assert told in error
    assert "Traceback" not in error
    assert len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_config_key_is_named_with_the_nearest(tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text("trainer:\n  max_epoch: 3\n")
    assert call("train", "--config", config) == 2
    assert "did you mean trainer.max_epochs?" in capsys.readouterr().err


def test_hard_attention_trains_and_its_test_time_rule_is_kept_and_told(drawn, tmp_path, capsys):
    hard = ("--model.attention.selection", "mixed", "--objective.name", "hard", "--search.test_time_rule", "argmax")
    data = ("--data.captions", drawn / "captions.jsonl", "--trainer.max_epochs", 1, "--output", tmp_path)
    more = ("--objective.baseline", "leave_one_out", "--objective.samples", 2, "--objective.entropy_weight", 0.1)
    assert call("train", *SMALL, *data, *hard, *more, "--name", "hard") == 0
    captioner = captioning.load(tmp_path / "hard")
    assert captioner.default_search.test_time_rule == "argmax"
    [caption] = captioner.caption([drawn / "test_00000.png"])
    assert caption.details["cell"].tolist() == caption.maps.reshape(len(caption.words), -1).argmax(1).tolist()
    text = ("--text", "a red circle", "--overlay", tmp_path / "maps", "--test_time_rule", "expected")
    assert call("caption", tmp_path / "hard", drawn / "test_00000.png", *text) == 0
    assert "cell" not in json.loads((tmp_path / "maps" / "test_00000.json").read_text())  # soft: no single cell
    capsys.readouterr()
    options = ("--captions", drawn / "captions.jsonl", "--split", "test")
    assert call("evaluate", tmp_path / "hard", *options) == 0
    assert "test time rule argmax" in capsys.readouterr().out
    assert call("evaluate", tmp_path / "hard", *options, "--test_time_rule", "expected") == 0
    assert "test time rule expected" in capsys.readouterr().out


def test_self_critical_training_begins_with_a_trained_captioner_and_logs_its_reward(trained, drawn, tmp_path):
    objective = ("--objective.name", "self_critical", "--objective.spoken", 2, "--objective.spoken_length", 5)
    data = ("--data.captions", drawn / "captions.jsonl", "--trainer.max_epochs", 1, "--output", tmp_path)
    log = ("--trainer.log_every_n_steps", 1, "--name", "critical", "--init_from", trained)
    assert call("train", *SMALL, *data, *objective, *log) == 0
    [written] = (tmp_path / "critical").rglob("metrics.csv")
    with written.open() as file:
        rewards = [float(row["train/reward"]) for row in csv.DictReader(file) if row["train/reward"]]
    assert rewards
    assert all(0 <= each <= 10 for each in rewards)


def test_a_section_without_settings_is_its_defaults_and_one_that_is_none_is_named(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("name: one\nobjective:\nmodel:\n  encoder:\n")
    config = parse_training_config(["--config", str(path)], prog="captioning train")
    assert config == TrainingConfig(name="one")
    path.write_text("objective: 3\n")
    with pytest.raises(ConfigError, match=r"objective: expected settings below it, such as objective\.NAME, got 3"):
        parse_training_config(["--config", str(path)], prog="captioning train")
