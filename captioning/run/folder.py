"""A run's folder: its config beside everything that came of it; never mixed with another run's."""

import os
import re
import shutil
from pathlib import Path

from captioning.errors import CheckpointError, ConfigError

CONFIG, CHECKPOINTS, LAST = "config.yaml", "checkpoints", "last.ckpt"
PREDICTIONS, SCORES, SAMPLES, MODEL = "predictions.json", "scores.json", "samples", "model"
SKIPPED = "skipped_images.tsv"
DEFAULT_NAME = "captioner"


def leads() -> bool:
    """Whether this is a run's first process: it alone makes the folder, which the others find."""
    return int(os.environ.get("LOCAL_RANK", "0")) == 0 and int(os.environ.get("NODE_RANK", "0")) == 0


def choose_run_folder(output: Path, name: str | None, *, overwrite: bool, resume: bool) -> Path:
    """Where a run goes, without touching it: a free name, or with `resume` the run that is there.

    Without a name it is captioner, captioner-2, ...; a given name that is taken is refused unless `overwrite`.
    """
    folder = output / name if name else _numbered(output, resume=resume)
    if folder.exists() and not overwrite and not resume:
        raise ConfigError(
            f"run folder {folder}: there is one already; give another --name, --overwrite true to replace it, "
            "or --ckpt_path last to go on with it"
        )
    return folder


def create_run_folder(folder: Path, *, resume: bool) -> None:
    """Make the folder; what lies there is removed unless it is resumed."""
    if folder.exists() and not resume:
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)


def find_checkpoint(folder: Path, ckpt_path: str | None) -> Path | None:
    """The checkpoint to go on from; `last` is the newest of the run."""
    if ckpt_path is None:
        return None
    path = folder / CHECKPOINTS / LAST if ckpt_path == "last" else Path(ckpt_path)
    if not path.is_file():
        raise CheckpointError(
            f"--ckpt_path {ckpt_path}: expected a checkpoint at {path}, found none; leave the flag out to start afresh"
        )
    return path


def _numbered(output: Path, *, resume: bool) -> Path:
    pattern = re.compile(rf"{DEFAULT_NAME}(?:-(\d+))?")
    matches = [pattern.fullmatch(path.name) for path in output.glob(f"{DEFAULT_NAME}*")]
    taken = sorted(int(match[1] or 1) for match in matches if match)
    number = taken[-1] + (0 if resume else 1) if taken else 1
    return output / (DEFAULT_NAME if number == 1 else f"{DEFAULT_NAME}-{number}")
