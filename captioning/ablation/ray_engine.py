"""Runs on an existing Ray cluster: a task a run, done again elsewhere when its node is lost.

The run folders lie on a disk that all nodes see, as the data and the feature store do. A task that is started again
finds the result if an earlier attempt wrote one, and else clears what that left; the lock in the folder keeps a
lost node that still lives from working there beside it. So nothing is lost and nothing counted twice.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from captioning.ablation.engines import Job
from captioning.ablation.folder import FAILURE, state_of, write_json
from captioning.ablation.launch import launch
from captioning.errors import ConfigError

NODES_LOST = 5
"""How often a run is started on another node before it counts as failed."""


@dataclass(frozen=True)
class RayEngine:
    """A cluster that runs already (`ray start --head`), at `address`; auto: the one of this machine."""

    address: str = "auto"
    cpus: int = 1
    """Cores that a run takes; torch gets as many threads."""
    gpus: float = 0
    """GPUs that a run takes; a share lets several use one."""

    def __post_init__(self) -> None:
        if find_spec("ray") is None:
            raise ConfigError("--engine ray: ray is not installed; pip install 'captioning[ray]', on every node")

    def __call__(self, jobs: Sequence[Job]) -> Iterator[Job]:
        """Each job as it ends."""
        import ray

        self._connect()
        task = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=NODES_LOST)(_make)
        here, threads = os.getcwd(), {"OMP_NUM_THREADS": str(self.cpus)}
        waiting = {task.remote(job, here, threads): job for job in jobs}
        try:
            while waiting:
                [ended], _ = ray.wait(list(waiting), num_returns=1)
                job = waiting.pop(ended)
                self._settle(job, ended)
                yield job
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)
            ray.shutdown()

    def _connect(self) -> None:
        import ray

        try:
            self._knock()
            ray.init(address=self.address, log_to_driver=False, configure_logging=False)
        except (OSError, RuntimeError, ValueError) as error:
            told = str(error).splitlines()[0]
            raise ConfigError(
                f"--engine ray: no cluster at {self.address!r} ({told}); start one with `ray start --head`, or give "
                "another --address"
            ) from error

    def _knock(self) -> None:
        """OSError where nobody listens at HOST:PORT: Ray itself may try for minutes."""
        place = urlsplit(self.address if "://" in self.address else f"//{self.address}")
        if place.scheme in ("", "ray") and place.hostname and place.port:
            socket.create_connection((place.hostname, place.port), timeout=10).close()

    def _settle(self, job: Job, reference: Any) -> None:
        """See that the folder tells how the job ended."""
        import ray

        try:
            ray.get(reference)
            error = "its node wrote a result where this machine sees none: give --output a disk that all nodes see"
        except ray.exceptions.RayError as lost:
            error = f"lost with its node {NODES_LOST + 1} times, or not started ({str(lost).splitlines()[0]})"
        if state_of(job.folder) == "missing":
            job.folder.mkdir(parents=True, exist_ok=True)
            write_json(job.folder / FAILURE, {"error": error, "killed": True})


def _make(job: Job, place: str, environment: dict[str, str]) -> None:
    """The task, on a node: the same process as on one machine, started from the same folder."""
    os.chdir(Path(place))
    launch(job.folder, job.request, environment)
