"""The processes of a run: one name, one store, one fate, whoever starts them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import captioning
from captioning.cli.settings import parse_training_config
from captioning.errors import ConfigError
from captioning.run import processes
from captioning.run.folder import choose_run_folder, create_run_folder, find_checkpoint
from tests.cli.conftest import SMALL
from tests.training.test_two_processes import ROOT, free_port

LAUNCHERS = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID", "SLURM_NTASKS", "TORCHELASTIC_RUN_ID")
TORCHRUN = {"RANK": "0", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "none"}
SLURM = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "71", "SLURM_STEP_ID": "2"}


@pytest.fixture
def environment(monkeypatch):
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)

    def become(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return become


@pytest.mark.parametrize(
    ("variables", "leads"),
    [
        ({}, True),
        ({"LOCAL_RANK": "0", "NODE_RANK": "0"}, True),
        ({"LOCAL_RANK": "1", "NODE_RANK": "0"}, False),
        ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, False),
        (TORCHRUN, True),
        ({**TORCHRUN, "RANK": "4"}, False),
        (SLURM, True),
        ({**SLURM, "SLURM_PROCID": "3"}, False),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, True),
    ],
)
def test_one_process_leads(variables, leads, environment):
    environment(**variables)
    assert processes.leads() is leads


def test_a_slurm_job_names_its_run_in_every_process(environment, tmp_path):
    for rank in ("0", "3"):
        environment(**{**SLURM, "SLURM_PROCID": rank})
        chosen = choose_run_folder(tmp_path, None, overwrite=False, resume=False)
        assert chosen == tmp_path / "slurm-71.2"


def test_two_runs_that_choose_one_name_do_not_mix(environment, tmp_path):
    folders = [choose_run_folder(tmp_path, None, overwrite=False, resume=False) for _ in range(2)]
    create_run_folder(folders[0], overwrite=False, resume=False)
    with pytest.raises(ConfigError, match="another run has taken it just now"):
        create_run_folder(folders[1], overwrite=False, resume=False)


def test_a_run_that_was_stopped_before_its_first_checkpoint_starts_afresh(tmp_path, caplog):
    assert find_checkpoint(tmp_path / "mine", "last", named=True) is None
    assert "has no checkpoint yet, so it starts afresh" in caplog.text


def command(drawn, runs, *more):
    """A call with a store, on two processes."""
    encoder = ("--model.encoder.name", "resnet18", "--model.encoder.weights", "none", "--model.encoder.image_size", 64)
    distributed = ("--trainer.devices", 2, "--trainer.strategy", "ddp", "--data.feature_cache", runs / "features")
    data = ("--data.captions", drawn / "captions.jsonl", "--output", runs / "runs")
    return [str(each) for each in ("train", *SMALL, *encoder, *distributed, *data, *more)]


def clean_environment():
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "MASTER_PORT": str(free_port())}


def test_torchrun_starts_an_unnamed_run_with_one_folder_and_one_store(drawn, tmp_path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    environment = clean_environment()
    del environment["MASTER_PORT"]
    done = subprocess.run(
        [*launcher, "captioning", *command(drawn, tmp_path, "--trainer.max_epochs", 1)],
        env=environment,
        timeout=1200,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["captioner"]
    assert len(list((tmp_path / "features").iterdir())) == 1
    assert done.stdout.count("captioner:") == 1
    assert len(json.loads((tmp_path / "runs" / "captioner" / "predictions.json").read_text())) == 6
    assert captioning.load(tmp_path / "runs" / "captioner").caption([drawn / "test_00000.png"])


def children_of(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_process_that_dies_ends_the_run_with_a_message(drawn, tmp_path):
    """The second one, which is the same call once more, finds the first one's folder and trains with it. Then it is
    killed; the first one must neither wait for it nor print a traceback.
    """
    arguments = command(drawn, tmp_path, "--trainer.max_epochs", 2000, "--name", "dies", "--data.batch_size", 2)
    started = subprocess.Popen(
        [sys.executable, "-m", "captioning", *arguments], env=clean_environment(), stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: (tmp_path / "runs" / "dies" / "checkpoints" / "last.ckpt").exists(), started)
        for child in children_of(started.pid):
            os.kill(child, signal.SIGKILL)
        _, errors = started.communicate(timeout=600)
    finally:
        started.kill()
    assert started.returncode != 0
    assert "another process of this run is gone" in errors or "Child process with PID" in errors, errors[-3000:]
    assert "Traceback" not in errors


def wait_until(happened, process):
    for _ in range(12000):
        if happened():
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    raise AssertionError("it never trained")


def test_the_documented_config_for_many_machines_is_one(tmp_path):
    text = (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "multi_node.yaml").write_text(block)
    config = parse_training_config(["--config", str(tmp_path / "multi_node.yaml")], prog="captioning train")
    assert (config.trainer.devices, config.trainer.num_nodes) == (4, 2)
