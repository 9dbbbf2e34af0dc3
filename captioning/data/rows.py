"""Caption files whose rows name a picture and a caption: rows of one picture are brought together here."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from captioning.data.faults import TWO_SPLITS, Fault
from captioning.data.files import find_picture, normalize_name
from captioning.data.records import CaptionedImage
from captioning.data.splits import split_by_hash, split_name
from captioning.errors import DataError


class Row(NamedTuple):
    """What a file says in one place."""

    line: int
    """The line where it stands, from 1."""
    image: str
    """The picture's name as written: a file name, or a path below the folder of pictures."""
    captions: tuple[str, ...]
    """What is said of the picture."""
    split: str = ""
    """The picture's split as written; empty where the file states none."""


def gather(
    rows: Iterable[Row],
    *,
    file: Path,
    images: Path | None,
    fractions: Mapping[str, float],
    faults: list[Fault] | None = None,
) -> list[CaptionedImage]:
    """One record a picture, in order of first appearance, with all of its captions in theirs.

    The id is the file's name, or the path as written where two folders hold the same name. Pictures lie in
    `images` (None: beside `file`). A picture without a stated split gets one by the hash of its id. One with
    several is a DataError, or with `faults` an entry there, and of the first.
    """
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        name = normalize_name(row.image)
        if not _base(name):
            raise DataError(f"{file}, line {row.line}: expected the name of a picture, got {row.image!r}")
        by_name.setdefault(name, []).append(row)
    times = Counter(_base(name) for name in by_name)
    records = []
    for name, of_image in by_name.items():
        captions = tuple(caption for row in of_image for caption in row.captions)
        image_id = _base(name) if times[_base(name)] == 1 else name
        split = _one_split(of_image, file, faults) or split_by_hash(image_id, fractions)
        path = find_picture(images or file.parent, of_image[0].image)
        records.append(CaptionedImage(image_id, path, captions, split))
    return records


def _base(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name


def _one_split(rows: list[Row], file: Path, faults: list[Fault] | None) -> str:
    stated = {split_name(row.split): row.line for row in rows if row.split.strip()}
    if len(stated) > 1:
        places = ", ".join(f"{split} (line {line})" for split, line in stated.items())
        if faults is None:
            raise DataError(f"{file}: expected one split for {rows[0].image}, got {places}")
        faults.append(Fault(TWO_SPLITS, rows[0].image, places))
    return next(iter(stated), "")
