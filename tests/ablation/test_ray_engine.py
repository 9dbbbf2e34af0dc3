"""A study on Ray's own local cluster of several nodes, one of which is killed in the middle."""

import csv
import json
import socket
import subprocess
import sys
import time
import warnings
from contextlib import ExitStack

import pytest

from tests.ablation.tiny import TINY, job_processes
from tests.cli.conftest import call

pytest.importorskip("ray", reason="the extra ray is not installed")

# Ray's own processes and files, which it leaves to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def ports():
    """Of a node's agents: given, so that a busy machine does not wait for them to choose in Ray's fifteen seconds."""
    names = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return {name: each.getsockname()[1] for name, each in zip(names, sockets, strict=True)}


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("RAY_DISABLE_IMPORT_WARNING", "1")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **ports()})
    yield made
    made.shutdown()


def wait_for_a_run(folder, study):
    """Names of the runs that train, as soon as there is one."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and study.poll() is None:
        if found := list(folder.glob("runs/*/training/config.yaml")):
            return [path.parent.parent.name for path in found]
        time.sleep(0.05)
    return []


def test_the_runs_of_a_killed_node_are_done_again_and_counted_once(cluster, tmp_path):
    node = cluster.add_node(num_cpus=1, **ports())
    command = [sys.executable, "-m", "captioning", "ablate", TINY, "--seeds", "1", "--size", "two", "--no_images"]
    ray = ["--engine", "ray", "--address", cluster.address, "--output", tmp_path]
    with subprocess.Popen([*command, *ray], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as study:
        try:
            assert len(wait_for_a_run(tmp_path, study)) == 1
            node.kill_raylet()  # at once, as a power cut would; its workers die with it
            assert not list(tmp_path.glob("runs/*/result.json"))
            cluster.add_node(num_cpus=1, **ports())  # in the main thread: Ray sets a signal handler
            assert study.wait(300) == 0
        finally:
            study.kill()
    rows = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    assert [(row["variant"], row["state"]) for row in rows] == [("softmax", "done"), ("mean_pool", "done")]
    assert len(list((tmp_path / "runs").iterdir())) == 2
    for folder in (tmp_path / "runs").iterdir():
        assert json.loads((folder / "result.json").read_text())["images"] == 40
        assert len(list((folder / "training" / "log").glob("version_*"))) == 1
    assert job_processes(tmp_path) == []


def test_no_cluster_is_told_in_one_line(tmp_path, capsys):
    address = ("--engine", "ray", "--address", "127.0.0.1:1")
    assert call("ablate", TINY, "--size", "two", *address, "--output", tmp_path) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "--engine ray: no cluster at '127.0.0.1:1'" in error
