"""The processes of a run, before Lightning has joined them: who leads, and what they agree on.

They come about in one of three ways: Lightning starts the others once the first is ready (they find what it has made),
or torchrun or SLURM starts all at once.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch.distributed as distributed
from torch._C._distributed_c10d import TCPStore

from captioning.errors import ProcessError

_PATIENCE = timedelta(minutes=5)
_LOST = ("connection", "closed by", "timed out", "timeout", "nccl", "gloo", "broken pipe", "heartbeat")


def leads() -> bool:
    """Whether this is a run's first process: it alone makes the folder, which the others find."""
    return _rank() == 0


def started_together() -> bool:
    """Whether a launcher has started all processes of the run at once."""
    return "TORCHELASTIC_RUN_ID" in os.environ or _slurm_tasks() > 1


def agree(value: str | None) -> str:
    """The first process's value, in all processes that torchrun has started; only the first one knows it."""
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=_PATIENCE)
    if value is not None:
        store.set(f"captioning/{attempt}", value)
        return value
    try:
        return store.get(f"captioning/{attempt}").decode()
    except RuntimeError as error:
        raise ProcessError(
            "the run's first process did not name its folder; see its message, or give --name"
        ) from error


def job_name() -> str | None:
    """What SLURM calls the job, the same in all of its processes; None outside of it."""
    if _slurm_tasks() < 2:
        return None
    return f"slurm-{os.environ['SLURM_JOB_ID']}.{os.environ.get('SLURM_STEP_ID', '0')}"


@contextmanager
def one_fate() -> Iterator[None]:
    """Say in one line that another process is gone, where waiting for it has failed."""
    try:
        yield
    except RuntimeError as error:
        said = str(error).lower()
        if not _joined() or not any(sign in said for sign in _LOST):
            raise
        raise ProcessError(
            f"process {_rank()}: another process of this run is gone, so all end ({_first_line(error)}); "
            "see what it said, and go on with --ckpt_path last"
        ) from error


def _rank() -> int:
    """Among all processes of all machines."""
    environment = os.environ
    if "RANK" in environment:  # torchrun
        return int(environment["RANK"])
    if _slurm_tasks() > 1:
        return int(environment["SLURM_PROCID"])
    local, node = (int(environment.get(name, "0")) for name in ("LOCAL_RANK", "NODE_RANK"))
    return max(local, node)  # Lightning's own: 0 for the first only


def _slurm_tasks() -> int:
    """Processes that srun has started; 1 in a shell of one's own within a job."""
    environment = os.environ
    return int(environment.get("SLURM_NTASKS", "1")) if "SLURM_PROCID" in environment else 1


def _joined() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
