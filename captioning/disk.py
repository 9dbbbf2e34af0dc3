"""Files that are whole or absent, at whatever moment the writer dies or the disk is full."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from captioning.errors import DiskError


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write a file under another name, wait for the disk, and only then give it its own.

    An earlier file of this name stays as it was until then. Raises DiskError where it can't be written.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        discard(partial)
        raise DiskError(path, error.strerror or str(error)) from error


def write_text(path: Path, text: str) -> None:
    """The same for UTF-8 text."""
    write_whole(path, text.encode())


def write_json(path: Path, content: Any) -> None:
    """The same for JSON, one space a level, letters of all scripts as they are."""
    write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A fresh folder beside it, which takes its name at the end; after an error it is gone and the old one stays.

    What killed processes left of such folders is removed. Raises DiskError where it can't be made.
    """
    fresh = _fresh_beside(folder)
    try:
        yield fresh
        fresh.chmod(0o755)
        _exchange(fresh, folder)
    except OSError as error:
        raise DiskError(folder, error.strerror or str(error)) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Wait until the names in this folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(path: Path) -> None:
    """Remove a file, if it is there and the disk lets us."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return


def _fresh_beside(folder: Path) -> Path:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for left in folder.parent.glob(f".{folder.name}-*"):
            shutil.rmtree(left, ignore_errors=True)
        return Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise DiskError(folder, error.strerror or str(error)) from error


def _exchange(fresh: Path, folder: Path) -> None:
    """At every moment one of the two is whole."""
    replaced = fresh.with_name(f"{fresh.name}-replaced")
    if folder.exists():
        folder.rename(replaced)
    fresh.rename(folder)
    shutil.rmtree(replaced, ignore_errors=True)
