"""Two processes train as one, see each validation image once, and draw different regions (H56, H57)."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from captioning.metrics import score
from tests.training import small_run

ROOT = Path(__file__).parents[2]
MODES = ("soft", "hard", "mixed", "frozen", "tuned")


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """What both processes end with, a list a scenario."""
    folder = tmp_path_factory.mktemp("two")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "MASTER_ADDR": "127.0.0.1"}
    environment |= {"MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "NODE_RANK": "0"}
    command = [sys.executable, "-m", "tests.training.two_processes", str(folder)]
    run = {"cwd": ROOT, "env": environment, "timeout": 1200}  # a guard against hanging
    done = subprocess.run(command, **run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return lambda name: [torch.load(folder / f"{name}_{rank}.pt", weights_only=True) for rank in range(2)]


def test_two_processes_take_the_step_of_one(ended):
    """Gradients are those of one process with the doubled batch, and every validation image counts once."""
    single, loaders = small_run.make(7, batch_size=4)
    small_run.fit(single, loaders, max_epochs=2)
    for rank in ended("step_of_one"):
        assert rank["weights"].keys() == single.captioner.state_dict().keys()
        for name, tensor in single.captioner.state_dict().items():
            torch.testing.assert_close(rank["weights"][name], tensor, atol=1e-6, rtol=1e-4)
        assert rank["predictions"] == single.predictions


def test_H56_each_of_five_pictures_is_scored_once(ended):
    single, loaders = small_run.make(5, batch_size=4)
    small_run.fit(single, loaders)
    references = small_run.captions(5).references
    metrics = ("BLEU-1", "BLEU-4", "ROUGE-L", "CIDEr-D")
    expected = score(single.predictions, references, metrics)
    for rank in ended("five_pictures"):
        assert sorted(rank["predictions"]) == [f"{i}.png" for i in range(5)]
        found = score(rank["predictions"], references, metrics)
        assert found.corpus == pytest.approx(expected.corpus, abs=1e-6)
        for name, values in expected.per_image.items():
            assert found.per_image[name] == pytest.approx(values, abs=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_H57_every_mode_trains_and_gradients_and_parameters_stay_equal(ended, mode):
    one, other = ended(mode)
    assert one["gradients"].keys() == other["gradients"].keys()
    for name, gradient in one["gradients"].items():
        assert gradient is not None, name
        assert torch.equal(gradient, other["gradients"][name]), name
    for name, tensor in one["weights"].items():
        assert torch.equal(tensor, other["weights"][name]), name
    assert len(one["images"]) == 2
    assert not {*sum(one["images"], ())} & {*sum(other["images"], ())}


def test_hard_samples_differ_between_processes_and_repeat(ended):
    """All pictures and captions are equal, so that only what is drawn can tell the processes apart."""
    one, other = ended("hard_alike")
    first = ended("hard_alike_again")[0]
    assert len(one["cells"]) == 2
    for mine, theirs, again in zip(one["cells"], other["cells"], first["cells"], strict=True):
        assert mine.shape == theirs.shape
        assert not torch.equal(mine, theirs)
        assert torch.equal(mine, again)
