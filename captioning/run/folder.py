"""A run's folder: its config beside everything that came of it; never mixed with another run's."""

import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from captioning.errors import CheckpointError, ConfigError
from captioning.run import processes
from captioning.training.checkpoint_files import LAST, check_whole

CONFIG, CHECKPOINTS = "config.yaml", "checkpoints"
PREDICTIONS, SCORES, SAMPLES, MODEL = "predictions.json", "scores.json", "samples", "model"
SKIPPED = "skipped_images.tsv"
DEFAULT_NAME = "captioner"
_FOLDER = "CAPTIONING_RUN_FOLDER"
_log = logging.getLogger(__name__)


def choose_run_folder(output: Path, name: str | None, *, overwrite: bool, resume: bool) -> Path:
    """Where a run goes, without touching it: a free name, or with `resume` the run that is there.

    Without a name it is captioner, captioner-2, ..., or what SLURM calls the job; a given name that is taken is refused
    unless `overwrite`. All processes of a run get the same.
    """
    name = name or processes.job_name()
    if not processes.leads():
        return _of_first_process(output, name)
    folder = output / name if name else _numbered(output, resume=resume)
    if folder.exists() and not overwrite and not resume:
        raise ConfigError(
            f"run folder {folder}: there is one already; give another --name, --overwrite true to replace it, "
            "or --ckpt_path last to go on with it"
        )
    if processes.started_together() and not name:
        processes.agree(str(folder))
    return folder


def stored_config(model: Path) -> dict[str, Any]:
    """The settings of the run that `model` is the folder of, or the model or a checkpoint in it; else nothing.

    Raises ConfigError for a config that can't be read.
    """
    for folder in (model, *model.parents[:2]):
        if (folder / CONFIG).is_file():
            try:
                stored = yaml.safe_load((folder / CONFIG).read_text(encoding="utf-8"))
            except (OSError, ValueError, yaml.YAMLError) as error:
                raise ConfigError(f"{folder / CONFIG}: expected a run's settings ({error})") from error
            return stored if isinstance(stored, dict) else {}
    return {}


@contextmanager
def told_to_later_processes(folder: Path) -> Iterator[None]:
    """Inside, processes that this one starts know the folder."""
    os.environ[_FOLDER] = str(folder)
    try:
        yield
    finally:
        del os.environ[_FOLDER]


def _of_first_process(output: Path, name: str | None) -> Path:
    if name:
        return output / name
    return Path(processes.agree(None) if processes.started_together() else os.environ[_FOLDER])


def create_run_folder(folder: Path, *, overwrite: bool, resume: bool) -> None:
    """Make the folder; what lies there is removed with `overwrite`, unless it is resumed."""
    if overwrite and not resume and folder.exists():
        shutil.rmtree(folder)
    try:
        folder.mkdir(parents=True, exist_ok=resume)
    except FileExistsError as error:
        raise ConfigError(f"run folder {folder}: another run has taken it just now; start this one again") from error


def find_checkpoint(folder: Path, ckpt_path: str | None, *, named: bool) -> Path | None:
    """The checkpoint to go on from, if there is one.

    `last` is the newest whole one of the run. A run that has a name, or a folder, and was stopped before its first
    checkpoint starts afresh, so that the same call may always be made again.
    """
    if ckpt_path is None:
        return None
    found = _newest_whole(folder / CHECKPOINTS) if ckpt_path == "last" else Path(ckpt_path)
    if found is not None and found.is_file():
        return found
    if ckpt_path == "last" and (named or folder.exists()):
        _log.warning("--ckpt_path last: run %s has no checkpoint yet, so it starts afresh", folder)
        return None
    raise CheckpointError(
        f"--ckpt_path {ckpt_path}: expected a checkpoint at {found or folder / CHECKPOINTS / LAST}, found none; "
        "leave the flag out to start afresh"
    )


def _newest_whole(checkpoints: Path) -> Path | None:
    """`last.ckpt`, or where it is damaged the newest other one, from which the run comes to the same end."""
    others = (path for path in checkpoints.glob("*.ckpt") if path.name != LAST)
    newest_first = sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)
    for path in (checkpoints / LAST, *newest_first):
        try:
            check_whole(path)
        except CheckpointError as error:
            if path.exists():
                _log.warning("--ckpt_path last: %s; trying an earlier one", error)
            continue
        return path
    return None


def _numbered(output: Path, *, resume: bool) -> Path:
    pattern = re.compile(rf"{DEFAULT_NAME}(?:-(\d+))?")
    matches = [pattern.fullmatch(path.name) for path in output.glob(f"{DEFAULT_NAME}*")]
    taken = sorted(int(match[1] or 1) for match in matches if match)
    number = taken[-1] + (0 if resume else 1) if taken else 1
    return output / (DEFAULT_NAME if number == 1 else f"{DEFAULT_NAME}-{number}")
