"""Which picture files the arguments of a command mean."""

import glob
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TextIO

from captioning.data.image_content import HEAD_SIZE, is_picture
from captioning.errors import DataError

IMAGE_SUFFIXES = frozenset(
    {".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"}
    | {".pbm", ".pgm", ".png", ".ppm", ".tga", ".tif", ".tiff", ".webp"}
)
"""What counts as a picture when a folder is given, besides files that begin as pictures do."""

STREAM = "-"
"""The argument that stands for a list of arguments, one a line, on the stream."""


def find_images(
    arguments: Iterable[str | Path],
    *,
    stream: TextIO | None = None,
    on_error: Callable[[DataError], None] | None = None,
    on_left_out: Callable[[Path, Sequence[Path]], None] | None = None,
) -> list[Path]:
    """The picture files that `arguments` mean, each once, sorted by path.

    An argument is a file, a folder (its pictures by suffix or by content; hidden files and the folders below are
    left out, and so are other files, of which `on_left_out` is told), a pattern (`*`, `?`, `[...]`; `**` for all
    folders below), or `-` for more of these, one a line, on `stream`. A path that exists is never taken for
    a pattern. Whether a file holds a picture shows when it is read.

    Raises DataError for a missing file, a folder without pictures or a pattern without match; with `on_error`
    that is called with each such error instead, and the search goes on.
    """
    paths: set[Path] = set()
    for argument in _with_lines_of(stream, arguments):
        try:
            paths.update(_expand(argument, on_left_out))
        except DataError as error:
            if on_error is None:
                raise
            on_error(error)
    return sorted(paths)


def _with_lines_of(stream: TextIO | None, arguments: Iterable[str | Path]) -> Iterable[str]:
    for argument in map(str, arguments):
        if argument != STREAM:
            yield argument
        elif stream is None:
            raise DataError(f"{STREAM}: expected a list of pictures on a stream, got none")
        else:
            yield from (line.rstrip("\r\n") for line in stream if line.strip())


def _expand(argument: str, on_left_out: Callable[[Path, Sequence[Path]], None] | None) -> Sequence[Path]:
    path = Path(argument)
    if path.is_dir():
        pictures, others = _pictures_in(path)
        if others and on_left_out is not None:
            on_left_out(path, others)
        return pictures
    if path.exists():
        return [path]
    if glob.has_magic(argument):
        return _matches(argument)
    raise DataError(f"{argument}: no such file or folder; check the path and the folder it starts from")


def _pictures_in(folder: Path) -> tuple[Sequence[Path], Sequence[Path]]:
    """The pictures of a folder, and its other files."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    pictures = [path for path in files if path.suffix.lower() in IMAGE_SUFFIXES or _begins_as_a_picture(path)]
    if not pictures:
        raise DataError(
            f"{folder}: no pictures (.jpg, .png, .webp, ...) among its {len(files)} files; "
            f"for pictures in the folders below it give '{folder / '**' / '*.jpg'}'"
        )
    return pictures, [path for path in files if path not in set(pictures)]


def _begins_as_a_picture(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return is_picture(file.read(HEAD_SIZE))
    except OSError:
        return False


def _matches(pattern: str) -> Sequence[Path]:
    files = [path for path in map(Path, glob.glob(pattern, recursive=True)) if path.is_file()]
    if not files:
        raise DataError(f"{pattern}: no file matches this pattern; check the folder and the suffix")
    return files
