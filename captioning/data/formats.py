"""The one door to caption files: a format by its name, or by what the file holds."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from captioning.data.coco import read_coco
from captioning.data.faults import Fault
from captioning.data.files import read_text
from captioning.data.flickr8k import TOKEN_LINE, read_flickr8k
from captioning.data.folder import read_folder
from captioning.data.huggingface import MARKS, read_huggingface
from captioning.data.karpathy import read_karpathy
from captioning.data.records import CaptionSet
from captioning.data.splits import FRACTIONS
from captioning.data.table import read_table
from captioning.data.webdataset import is_shards, read_webdataset
from captioning.errors import DataError

FORMATS = ("flickr8k", "karpathy", "coco", "table", "folder", "huggingface", "webdataset")


def read_captions(
    source: Path | str | Any,
    *,
    format_name: str | None = None,
    images: Path | None = None,
    split_lists: Mapping[str, Path] | None = None,
    fractions: Mapping[str, float] = FRACTIONS,
    restval: str = "train",
    check_files: bool = True,
    faults: list[Fault] | None = None,
) -> CaptionSet:
    """Read captions of any known format.

    source: a caption file, a folder of pictures with texts beside them, shards, or a data set of `datasets`.
    format_name: one of `FORMATS`; None: by what the source holds.
    images: the folder of the pictures; None: where the file lies.
    split_lists: for flickr8k, a file of picture names for each split.
    fractions: for files that state no split, the part of each.
    restval: for karpathy, the split that COCO's restval images join.
    check_files: leave out, and count, images whose picture is not there.
    faults: gets an entry for each thing that is wrong; two splits of one picture are then no error.
    """
    name = format_name or recognize(source)
    shared: dict[str, Any] = {"check_files": check_files, "faults": faults}
    if name in ("huggingface", "webdataset"):
        read = read_huggingface if name == "huggingface" else read_webdataset
        return read(source, fractions=fractions, **shared)
    path = Path(source)
    readers = {
        "flickr8k": partial(read_flickr8k, split_lists=split_lists, fractions=fractions),
        "karpathy": partial(read_karpathy, restval=restval),
        "coco": partial(read_coco, fractions=fractions),
        "table": partial(read_table, fractions=fractions),
        "folder": partial(read_folder, fractions=fractions),
    }
    if name not in readers:
        raise DataError(f"captions format: expected one of {', '.join(FORMATS)}, got {name!r}")
    if split_lists is not None and name != "flickr8k":
        raise DataError(f"{path}: split lists go with the format flickr8k, not with {name}")
    return readers[name](path, images=images, **shared)


def recognize(source: Path | str | Any) -> str:
    """The format of a source, by what it holds; `image,caption` lines in a .txt file are Flickr8k's."""
    if is_shards(source):
        return "webdataset"
    if not isinstance(source, Path | str):
        return "huggingface"
    path = Path(source)
    if path.is_dir():
        return "huggingface" if any((path / mark).is_file() for mark in MARKS) else "folder"
    text = read_text(path).lstrip()
    if text.startswith("{"):
        if not re.search(r'"images"\s*:\s*\[', text):
            return "table"
        return "coco" if re.search(r'"annotations"\s*:\s*\[', text) else "karpathy"
    first = text.split("\n", 1)[0]
    if TOKEN_LINE.fullmatch(first) or (path.suffix == ".txt" and "\t" not in first):
        return "flickr8k"
    return "table"
