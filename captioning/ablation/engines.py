"""Where runs are made: processes on this machine, or an existing cluster. An engine yields each run as it ends."""

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captioning.ablation.launch import launch
from captioning.errors import ConfigError


@dataclass(frozen=True)
class Job:
    """A run that is to be made."""

    folder: Path
    """Absolute."""
    request: dict[str, Any]
    """What run.json tells its process."""


Engine = Callable[[Sequence[Job]], Iterable[Job]]
"""Makes jobs and yields each when its folder has a result or a failure."""


@dataclass(frozen=True)
class LocalEngine:
    """Processes on this machine: `processes` at a time, or one for each of the GPUs."""

    processes: int = 1
    """How many at a time; they share the cores evenly."""
    gpus: tuple[str, ...] = ()
    """Ids of GPUs, each for one run at a time; none: the runs' own `trainer.accelerator` decides."""

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ConfigError(f"--processes: expected 1 or more, got {self.processes}")

    @property
    def at_once(self) -> int:
        """Runs at a time."""
        return len(self.gpus) or self.processes

    def __call__(self, jobs: Sequence[Job]) -> Iterator[Job]:
        """Each job as it ends. Left early, as by an interrupt, it ends the processes that run."""
        stop, free = threading.Event(), self._places()
        with ThreadPoolExecutor(self.at_once) as pool:
            waiting = {pool.submit(self._make, job, free, stop): job for job in jobs}
            try:
                for future in as_completed(waiting):
                    future.result()
                    yield waiting[future]
            finally:
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def _places(self) -> "queue.SimpleQueue[dict[str, str]]":
        """The environment of each place where a run can be made."""
        places: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
        # Cores that other work needs are left to it by whoever sets this.
        share = str(max(1, (os.cpu_count() or 1) // self.at_once))
        threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", share)}
        for place in range(self.at_once):
            places.put(threads | ({"CUDA_VISIBLE_DEVICES": self.gpus[place]} if self.gpus else {}))
        return places

    def _make(self, job: Job, free: "queue.SimpleQueue[dict[str, str]]", stop: threading.Event) -> None:
        environment = free.get()
        try:
            launch(job.folder, {**job.request, "processes": self.at_once}, environment, stop)
        finally:
            free.put(environment)
