"""COCO's own annotation files: images and captions in two lists, joined by id."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from captioning.data.faults import Fault
from captioning.data.files import find_picture
from captioning.data.json_files import as_id, read_images, take
from captioning.data.records import CaptionedImage, CaptionSet, clean
from captioning.data.splits import FRACTIONS, split_by_hash
from captioning.errors import DataError


def read_coco(
    path: Path,
    *,
    images: Path | None = None,
    fractions: Mapping[str, float] = FRACTIONS,
    check_files: bool = True,
    faults: list[Fault] | None = None,
) -> CaptionSet:
    """Read `{"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}`.

    Such a file states no split: `fractions` split by the hash of the id ({"val": 1.0}: all of it is val).
    """
    content = read_images(path)
    names = _read_names(content, path)
    captions = _read_annotations(content, names, path)
    records = [
        CaptionedImage(
            image_id,
            find_picture(images or path.parent, name),
            tuple(captions.get(image_id, ())),
            split_by_hash(image_id, fractions),
        )
        for image_id, name in names.items()
    ]
    return clean(records, check_files=check_files, faults=faults)


def _read_names(content: dict[str, Any], path: Path) -> dict[str, str]:
    """Image id -> file name."""
    names: dict[str, str] = {}
    for number, entry in enumerate(content["images"], start=1):
        where = f"{path}, image {number}"
        name = take(entry, "file_name", str, where=where)
        image_id = as_id(entry.get("id"), where=where)
        if image_id in names:
            raise DataError(f"{where}: expected a new id, got {image_id!r}, which an image before it has")
        names[image_id] = name
    return names


def _read_annotations(content: dict[str, Any], names: dict[str, str], path: Path) -> dict[str, list[str]]:
    """Image id -> its captions."""
    captions: dict[str, list[str]] = {}
    for number, entry in enumerate(take(content, "annotations", list, where=str(path)), start=1):
        where = f"{path}, annotation {number}"
        caption = take(entry, "caption", str, where=where)
        image_id = as_id(entry.get("image_id"), where=where)
        if image_id not in names:
            raise DataError(f"{where}: expected the id of an image, got {image_id!r}, which no image has")
        captions.setdefault(image_id, []).append(caption)
    return captions
