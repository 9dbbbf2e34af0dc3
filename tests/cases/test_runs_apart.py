"""Cases H51, H55, H59 to H61: weights, folders and tables of runs that must not disturb one another."""

import hashlib
import re
import time

import numpy as np
import pytest
import torch
import torchvision

from captioning.build import build_captioner, describe_captioner
from captioning.cli.settings import parse_training_config
from captioning.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from captioning.data.dataset import CaptionDataset
from captioning.data.records import build_vocabulary
from captioning.data.sources import PictureArrays
from captioning.decoding.search import Search
from captioning.encoders.make import make_encoder
from captioning.encoders.weights import check_download
from captioning.errors import WeightsError
from captioning.metrics import Scores
from captioning.metrics.table import markdown_table, score_table
from captioning.run.train import train
from captioning.training.datamodule import CaptionDataModule, LoaderSettings
from captioning.training.module import CaptioningModule
from captioning.training.objectives import CrossEntropy
from captioning.training.settings import OptimizerSettings
from tests.cli.conftest import SMALL, drawn  # noqa: F401 (a fixture)
from tests.training.small_run import captions, fit

URL = "https://download.invalid/models/resnet18-f37072fd.pth"


def test_H51_a_broken_download_in_the_cache_is_named_and_offline_is_told_soon(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    cached = tmp_path / "hub" / "checkpoints" / "resnet18-f37072fd.pth"
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"half of it")
    with pytest.raises(WeightsError, match=rf"{re.escape(str(cached))}: damaged or cut off .*remove it and run again"):
        check_download(URL)
    cached.unlink()
    started = time.monotonic()
    with pytest.raises(WeightsError, match="can't be downloaded"):
        check_download(URL)
    assert time.monotonic() - started < 60


def test_H51_a_local_file_is_taken_and_the_log_says_where_weights_come_from(tmp_path, caplog):
    torch.manual_seed(0)
    path = tmp_path / "mine.pth"
    torch.save(torchvision.models.resnet18().state_dict(), path)
    with caplog.at_level("INFO", logger="captioning"):
        encoder = make_encoder("resnet18", weights=str(path), image_size=64)
        make_encoder("resnet18", weights="none", image_size=64)
    of_file, of_none = caplog.messages
    assert str(path) in of_file
    assert "random" in of_none
    assert encoder.weights_origin == f"file {path}"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(WeightsError, match=r"mine\.pth"):
        make_encoder("resnet18", weights=str(path), image_size=64)


def frozen_encoder_run():
    """(module, data module) with a frozen ResNet, whose batch-norm would follow the batches if it could."""
    captioned = captions(5)
    model = ModelConfig(
        EncoderConfig(name="resnet18", weights="none", image_size=64),
        AttentionConfig(width=7),
        DecoderConfig(state_width=11, word_width=5, dropout=0.0),
    )
    torch.manual_seed(3)
    vocabulary = build_vocabulary(captioned, minimum_count=1)
    captioner = build_captioner(model, vocabulary, Search(beam_size=1, maximum_length=4))
    pixels = np.random.default_rng(1).integers(0, 256, (5, 64, 64, 3)).astype(np.uint8)
    places = {record.image_id: place for place, record in enumerate(captioned.records)}
    dataset = CaptionDataset(captioned, vocabulary, PictureArrays(pixels, places, captioner.encoder.preprocessing))
    module = CaptioningModule(
        captioner,
        CrossEntropy(),
        description=describe_captioner(captioner, model),
        optimizer=OptimizerSettings(name="sgd", learning_rate=0.1, encoder_learning_rate=0.1),
        references=captioned.references,
        validation_search=captioner.default_search,
    )
    return module, CaptionDataModule(dataset, dataset, LoaderSettings(2, evaluation_batch_size=3))


def test_H55_a_frozen_encoder_does_not_drift():
    module, loaders = frozen_encoder_run()
    encoder = module.captioner.encoder
    pixels = torch.rand(3, 3, 64, 64)

    def seen(images):
        with torch.no_grad():
            return encoder(images).regions

    module.train()
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    whole = seen(pixels)
    fit(module, loaders, max_epochs=2)
    module.train()
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert torch.equal(seen(pixels), whole)
    torch.testing.assert_close(seen(pixels[:1]), whole[:1], atol=1e-5, rtol=1e-4)


def run(output, folder, name, *arguments):
    """One tiny run in this process; its scores and first batch's loss."""
    options = (*SMALL, "--data.captions", folder / "captions.jsonl", "--output", output, "--name", name)
    options += ("--trainer.max_epochs", 1, "--trainer.sample_images", 0, "--trainer.log_every_n_steps", 1, *arguments)
    result = train(parse_training_config([str(option) for option in options], prog="test"))
    weights = hashlib.sha256()
    for tensor in result.captioner.state_dict().values():
        weights.update(tensor.numpy().tobytes())
    return result.scores.corpus, weights.hexdigest()


RUNS = {"a": ("--seed", "3"), "b": ("--model.attention.score", "dot"), "c": ("--data.batch_size", "5")}


@pytest.mark.filterwarnings("ignore")
def test_H60_a_run_gives_the_same_alone_first_or_last(tmp_path, drawn):  # noqa: F811
    found = {}
    for order in ("abc", "cba", "b"):
        for name in order:
            found.setdefault(name, []).append(run(tmp_path / order, drawn, name, *RUNS[name]))
    for name, results in found.items():
        assert all(result == results[0] for result in results), name
    assert len({results[0][1] for results in found.values()}) == 3


NAMES = ["soft|a", "lr=0.1|b", "a name\nin two lines", "back\\slash | and `code`"]


def test_H61_a_bar_in_a_name_keeps_its_cell():
    runs = {name: Scores({"BLEU-4": 0.125 * (1 + n), "CIDEr-D": 1.5 * n}) for n, name in enumerate(NAMES)}
    lines = list(score_table(runs).split("\n\n")[0].splitlines())
    cells = [_cells(line) for line in lines]
    assert {len(row) for row in cells} == {3}
    for row, (name, scores) in zip(cells[2:], runs.items(), strict=True):
        assert _unescaped(row[0]) == name
        assert float(row[1]) == pytest.approx(100 * scores.corpus["BLEU-4"], abs=5e-3)
        assert float(row[2]) == pytest.approx(scores.corpus["CIDEr-D"], abs=5e-5)
    assert markdown_table([["a|b"], ["c"]]).splitlines()[0].startswith("| a\\|b |")


def _cells(line):
    """The cells of a Markdown row: a bar that is not escaped parts them."""
    cells, escaped = [""], False
    for letter in line:
        if letter == "|" and not escaped:
            cells.append("")
        else:
            cells[-1] += letter
        escaped = letter == "\\" and not escaped
    return [cell.strip() for cell in cells[1:-1]]


def _unescaped(cell):
    return re.sub(r"\\(.)", r"\1", cell.replace("<br>", "\n"))
