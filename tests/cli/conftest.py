"""A captioner trained for a moment by the command itself, for all tests of the commands."""

import warnings

import pytest

from captioning.cli.main import main
from captioning.data.synthetic import draw_set, write_drawn_set

SMALL = [
    *("--model.encoder.name", "cells", "--model.encoder.weights", "none"),
    *("--model.attention.width", "8", "--model.decoder.state_width", "12", "--model.decoder.word_width", "8"),
    *("--trainer.progress_bar", "false", "--trainer.accelerator", "cpu", "--search.maximum_length", "9"),
    *("--data.minimum_count", "1", "--trainer.sample_images", "2"),
    *("--search.minimum_length", "3"),  # so little trained, it would rather say nothing
]


@pytest.fixture(scope="session")
def drawn(tmp_path_factory):
    """A folder with pictures and captions.jsonl."""
    folder = tmp_path_factory.mktemp("drawn")
    write_drawn_set(folder, draw_set(train=24, val=6, test=5))
    return folder


def call(*arguments):
    """The command in this process; Lightning's own warnings are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return main([str(argument) for argument in arguments])


@pytest.fixture(scope="session")
def trained(drawn, tmp_path_factory):
    """The run folder of a captioner."""
    runs = tmp_path_factory.mktemp("runs")
    captions = ("--data.captions", drawn / "captions.jsonl")
    assert call("train", *SMALL, *captions, "--trainer.max_epochs", 1, "--output", runs, "--name", "small") == 0
    return runs / "small"
