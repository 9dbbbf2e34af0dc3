"""A study that is killed, one of whose runs is killed and one of which fails: it ends in a whole, right table."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from captioning.ablation.folder import locked
from tests.ablation.tiny import TINY, job_processes
from tests.cli.conftest import call

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="finds the processes of runs in /proc")

STUDY = ("ablate", TINY, "--size", "three")
LONGEST = 900


def wait_for(condition):
    deadline = time.monotonic() + LONGEST
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return found


def works(folder, variant):
    """Whether the run of the variant is in the middle of its training."""
    return list(folder.glob(f"runs/{variant}-s1-*/training/config.yaml"))


def kill_the_study_in_its_last_run(folder):
    command = [sys.executable, "-m", "captioning", *map(str, STUDY), "--output", str(folder)]
    study = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: works(folder, "mean_pool"))
        [run] = job_processes(folder)
    finally:
        study.send_signal(signal.SIGKILL)
        study.wait()
    return run


def kill_the_first_process(folder, killed):
    """As soon as it is there: what a run that is killed later leaves behind, the orphan has left already."""
    killed += wait_for(lambda: job_processes(folder))
    os.kill(killed[0], signal.SIGKILL)


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/*.json")}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The folder, and what was seen on the way."""
    folder, seen = tmp_path_factory.mktemp("study"), {}
    orphan = kill_the_study_in_its_last_run(folder)
    wait_for(lambda: orphan not in job_processes(folder))
    seen["at the kill"] = times(folder)
    seen["half"] = not list(folder.glob("runs/mean_pool-*/result.json"))
    killed = []
    killer = threading.Thread(target=kill_the_first_process, args=(folder, killed))
    killer.start()
    seen["status"] = call(*STUDY, "--output", folder)
    killer.join()
    seen["killed"], seen["at the end"] = killed, times(folder)
    seen["page"], seen["text"] = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    return folder, seen


def rows_of(folder):
    return list(csv.DictReader((folder / "results.csv").read_text().splitlines()))


def test_it_ends_in_a_whole_table(study):
    folder, seen = study
    assert seen["half"]
    assert len(seen["killed"]) == 1
    assert seen["status"] == 1  # one run failed
    rows = rows_of(folder)
    assert [(row["variant"], row["state"]) for row in rows] == [
        ("softmax", "done"),
        ("broken", "failed"),
        ("mean_pool", "done"),
    ]
    assert "heads" in rows[1]["error"]
    assert rows[1]["CIDEr-D"] == ""
    assert len(list((folder / "runs").iterdir())) == 3


def test_only_what_was_missing_was_made(study):
    folder, seen = study
    before, after = seen["at the kill"], seen["at the end"]
    ended = [path for path in before if path.parent.name.split("-s1-")[0] in ("softmax", "broken")]
    assert {path.name for path in ended} >= {"result.json", "failure.json"}
    assert {path: before[path] for path in ended} == {path: after[path] for path in ended}
    assert len(list(folder.glob("runs/mean_pool-*/training/log/version_*"))) == 1


def test_a_run_is_one_folder_with_all_that_came_of_it(study):
    folder, _ = study
    [run] = (folder / "runs").glob("softmax-s1-*")
    for name in ("run.json", "environment.json", "output.txt", "predictions.json", "references.json", "scores.json"):
        assert (run / name).is_file()
    for name in ("config.yaml", "log/version_0/metrics.csv", "checkpoints/best.ckpt", "model/captioner.json"):
        assert (run / "training" / name).is_file()
    environment = json.loads((run / "environment.json").read_text())
    assert {"captioning", "git", "python", "packages", "processor", "threads", "devices"} <= environment.keys()
    scores = json.loads((run / "scores.json").read_text())
    assert scores["split"] == "test"
    assert {"exact", "pointing", "CIDEr-D"} <= scores["scores"].keys()
    assert json.loads((run / "result.json").read_text())["parameters"] > 0


def test_started_once_more_it_makes_nothing(study, capsys):
    folder, seen = study
    assert call(*STUDY, "--output", folder, "--no_images") == 1
    assert times(folder) == seen["at the end"]
    assert "broken-s1-" in capsys.readouterr().err


def test_the_report_tells_all_three_runs_and_is_one_file(study):
    folder, seen = study
    page, text = seen["page"], seen["text"]
    for told in ("2 of 3 runs are done, 1 failed", "broken-s1-", "With 1 seed nothing is claimed about"):
        assert told in text
        assert told in page
    assert "data:image/webp" in page
    assert 'src="http' not in page
    assert all((folder / "charts" / f"{name}.svg").is_file() for name in ("forest", "cost"))
    assert not (folder / "charts" / "curves.svg").exists()  # each run was validated once


def test_without_images_no_picture_and_no_reference_is_shown(study, capsys):
    folder, _ = study
    call(*STUDY, "--output", folder, "--report_only", "--no_images")
    assert "With 1 seed" in capsys.readouterr().out
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    [run] = (folder / "runs").glob("softmax-s1-*")
    references = [each[0] for each in json.loads((run / "references.json").read_text()).values()]
    assert "data:image/webp" not in page
    assert not [each for each in references if each in page or each in text]


def test_a_changed_config_is_a_new_run_beside_the_old_one(study):
    folder, _ = study
    call(*STUDY, "--output", folder, "--report_only", "--no_images", "--trainer.max_epochs", 2)
    assert [row["state"] for row in rows_of(folder)] == ["missing"] * 3
    call(*STUDY, "--output", folder, "--report_only", "--no_images")
    assert [row["state"] for row in rows_of(folder)] == ["done", "failed", "done"]


def test_two_studies_do_not_work_in_one_folder(study, capsys):
    folder, _ = study
    code = "import sys, time; from pathlib import Path; from captioning.ablation.folder import locked\n"
    code += "with locked(Path(sys.argv[1]) / 'lock'): print('held', flush=True); time.sleep(600)"
    holder = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        assert call(*STUDY, "--output", folder) == 2
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert "another captioning ablate works in this folder" in capsys.readouterr().err
    with locked(folder / "lock", wait=False):
        pass  # the system let go of it
