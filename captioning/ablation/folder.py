"""The folder of one run: its files, its state, and the lock that keeps two processes from working in it.

`result.json` is written last, so a folder that has one is whole; `failure.json` says why there is none.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from captioning.ablation.grid import Run
from captioning.ablation.identity import plain

REQUEST, RESULT, FAILURE = "run.json", "result.json", "failure.json"
OUTPUT, ENVIRONMENT, LOCK = "output.txt", "environment.json", "lock"
PREDICTIONS, REFERENCES, SCORES, COUNTS = "predictions.json", "references.json", "scores.json", "counts.npz"
TRAINING = "training"
"""The folder that `captioning train` makes: config, log, checkpoints, model."""

State = Literal["done", "failed", "missing"]


def find_folder(runs: Path, run: Run) -> Path:
    """The run's folder, also where its variant had another name when it was made; else where it will be."""
    for found in runs.glob(f"*-{run.identity[:8]}"):
        if read_json(found / REQUEST).get("identity") == run.identity:
            return found
    return runs / run.name


def state_of(folder: Path) -> State:
    """done and failed are final; what was begun and not ended is missing."""
    if (folder / RESULT).is_file():
        return "done"
    return "failed" if (folder / FAILURE).is_file() else "missing"


def request_of(run: Run) -> dict[str, Any]:
    """All that a process must know to make the run."""
    return {
        "variant": run.variant.name,
        "labels": dict(run.variant.labels),
        "settings": dict(run.variant.settings),
        "seed": run.seed,
        "split": run.split,
        "identity": run.identity,
        "config": plain(run.config),
    }


def clear(folder: Path) -> None:
    """Remove what an earlier attempt left."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in (REQUEST, OUTPUT, LOCK):
            path.unlink()


def read_json(path: Path) -> dict[str, Any]:
    """The file's content; empty where there is none."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return content


def write_json(path: Path, content: Any) -> None:
    """Write the file whole or not at all."""
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    fresh.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    fresh.replace(path)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock file; the system lets go of it when the process ends, however it ends.

    Without `wait` a lock that another process holds is a BlockingIOError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # lockf, not flock: a forked worker would inherit flock's and might outlive its parent.
    with path.open("a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except PermissionError as error:  # what some systems say for "held by another"
            raise BlockingIOError(str(error)) from error
        yield
