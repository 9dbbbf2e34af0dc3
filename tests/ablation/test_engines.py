"""Places on this machine, the estimate of time, and the command's own flags among those of the runs."""

import threading
import time
from dataclasses import replace

import pytest

from captioning.ablation import engines
from captioning.ablation.engines import Job, LocalEngine
from captioning.ablation.estimate import Measured
from captioning.ablation.plan_text import duration
from captioning.cli.ablate import split_overrides
from captioning.config import DataConfig, TrainerConfig, TrainingConfig
from captioning.errors import ConfigError


@pytest.fixture
def launched(monkeypatch):
    """Instead of processes: what each would have got, and how many were at work at once."""
    seen, lock, at_work = [], threading.Lock(), []

    def launch(folder, request, environment, stop):
        with lock:
            at_work.append(folder)
            busy = len(at_work)
        time.sleep(0.02)
        with lock:
            at_work.remove(folder)
            seen.append((folder, environment, request["processes"], busy))

    monkeypatch.setattr(engines, "launch", launch)
    return seen


def jobs(count, tmp_path):
    return [Job(tmp_path / str(number), {}) for number in range(count)]


def test_as_many_at_a_time_as_asked_for_and_each_job_once(launched, tmp_path, monkeypatch):
    monkeypatch.setattr(engines.os, "cpu_count", lambda: 7)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    ended = list(LocalEngine(processes=3)(jobs(11, tmp_path)))
    assert sorted(job.folder for job in ended) == sorted(job.folder for job in jobs(11, tmp_path))
    assert max(busy for *_, busy in launched) == 3
    assert {environment["OMP_NUM_THREADS"] for _, environment, *_ in launched} == {"2"}
    assert {processes for _, _, processes, _ in launched} == {3}


def test_a_number_of_threads_that_is_set_already_stays(launched, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    list(LocalEngine(processes=1)(jobs(1, tmp_path)))
    assert [environment["OMP_NUM_THREADS"] for _, environment, *_ in launched] == ["5"]


def test_one_run_at_a_time_on_each_gpu(launched, tmp_path):
    list(LocalEngine(gpus=("0", "3"))(jobs(7, tmp_path)))
    assert {environment["CUDA_VISIBLE_DEVICES"] for _, environment, *_ in launched} == {"0", "3"}
    assert max(busy for *_, busy in launched) == 2


def test_left_early_it_starts_nothing_more(launched, tmp_path):
    running = LocalEngine(processes=1)(jobs(50, tmp_path))
    next(running)
    running.close()
    assert len(launched) < 5


def test_no_process_is_refused():
    with pytest.raises(ConfigError, match="--processes: expected 1 or more, got 0"):
        LocalEngine(processes=0)


def test_the_estimate_adds_up_steps_validations_and_what_is_fixed():
    measured = Measured(fixed=11.0, step=0.5, image=0.01, train_images=103, validation_images=7)
    config = TrainingConfig(data=DataConfig(batch_size=10), trainer=TrainerConfig(max_epochs=6, validate_every=3))
    assert measured.seconds(config) == pytest.approx(11 + 6 * 11 * 0.5 + 2 * 7 * 0.01)
    stopped = replace(config, trainer=replace(config.trainer, max_steps=4))
    assert measured.seconds(stopped) == pytest.approx(11 + 4 * 0.5 + 2 * 7 * 0.01)
    assert [duration(each) for each in (5.2, 600, 7200)] == ["5 s", "10 minutes", "2.0 hours"]


def test_flags_with_dots_are_the_runs():
    own, overrides = split_overrides(
        ["study.yaml", "--trainer.max_epochs", "3", "--size", "quick", "--data.mirror=true", "--no_images"]
    )
    assert own == ["study.yaml", "--size", "quick", "--no_images"]
    assert overrides == ["--trainer.max_epochs=3", "--data.mirror=true"]
