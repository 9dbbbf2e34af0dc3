"""Lightning's checkpoints on disk: whole or absent, checked when read, and read without running code in them."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from captioning.differences import differences
from captioning.disk import write_whole
from captioning.errors import CheckpointError
from captioning.text.vocabulary import Vocabulary

LAST, BEST = "last.ckpt", "best.ckpt"


def write_checkpoint(checkpoint: dict[str, Any], path: Path) -> None:
    """Write the file, or leave the one that is there. Raises DiskError."""
    # By way of memory: where a disk is full, torch's own writer ends the process instead of raising.
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    write_whole(path, buffer.getbuffer())


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The content, on the CPU. Raises CheckpointError for what is missing, damaged, or more than plain types."""
    check_whole(path)
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # torch raises many kinds here.
        raise CheckpointError(
            f"{path}: can't be loaded without running code in it ({_first_line(error)}); "
            "give a captioner's folder or a .ckpt of captioning train"
        ) from error
    if not isinstance(checkpoint, dict) or "captioner" not in checkpoint:
        raise CheckpointError(f"{path}: expected a checkpoint of captioning train, found no captioner in it")
    return checkpoint


def check_whole(path: Path) -> None:
    """Raises CheckpointError unless every part of the file has the checksum that was noted when it was written.

    torch writes them (CRC-32) and does not compare them when it reads.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: there is no such file") from error
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError, ValueError) as error:
        raise CheckpointError(
            f"{path}: expected a checkpoint of captioning train, found a file that is damaged, cut off or another kind "
            f"({_first_line(error)}); get a fresh copy"
        ) from error
    if damaged is not None:
        raise CheckpointError(f"{path}: damaged, the checksum of its part {damaged} is not the one noted")


def check_same_captioner(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Check that a run described by `asked` may go on from a checkpoint described by `stored`.

    Raises CheckpointError for another model, vocabulary or encoder. How captions are searched may change.
    """
    Vocabulary.from_list(stored["vocabulary"]).check_same(Vocabulary.from_list(asked["vocabulary"]))
    found = differences(_identity(stored), _identity(asked), where="checkpoint")
    if found:
        raise CheckpointError(
            f"--ckpt_path: the checkpoint is of another captioner ({'; '.join(found)}); "
            "give the config that it was trained with, or start a new run with --init_from"
        )


def _identity(description: Mapping[str, Any]) -> dict[str, Any]:
    """What must not change; the same weights may come from another place."""
    model, encoder = description["model"], dict(description["encoder"])
    encoder.pop("weights_origin", None)
    settings = {name: value for name, value in model["encoder"].items() if name != "weights"}
    weights = description.get("fingerprints", {}).get("encoder")
    return {"model": {**model, "encoder": settings}, "encoder": {**encoder, "fingerprint": weights}}


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
