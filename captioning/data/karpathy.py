"""The JSON files of Karpathy's splits of Flickr8k, Flickr30k and COCO (Karpathy and Fei-Fei, 2015)."""

from pathlib import Path
from typing import Any

from captioning.data.faults import Fault
from captioning.data.files import find_picture, is_file
from captioning.data.json_files import as_id, read_images, take
from captioning.data.records import CaptionedImage, CaptionSet, clean
from captioning.data.splits import split_name


def read_karpathy(
    path: Path,
    *,
    images: Path | None = None,
    restval: str = "train",
    check_files: bool = True,
    faults: list[Fault] | None = None,
) -> CaptionSet:
    """Read `{"images": [{"filename", "split", "sentences": [{"raw"}]}]}`.

    COCO's restval images (30,504 of 113,287) train by default, as published results do; `restval` names
    another split, or "restval" to leave them out. The id is COCO's own number where there is one, else the
    file's name. Pictures lie in `images` (None: beside the file), with COCO's folder or without.
    """
    folder = images or path.parent
    content = read_images(path)
    records = [
        _read_image(entry, folder, restval, where=f"{path}, image {number}")
        for number, entry in enumerate(content["images"], start=1)
    ]
    return clean(records, check_files=check_files, faults=faults)


def _read_image(entry: Any, folder: Path, restval: str, *, where: str) -> CaptionedImage:
    name = take(entry, "filename", str, where=where)
    split = split_name(take(entry, "split", str, where=where))
    sentences = take(entry, "sentences", list, where=where)
    captions = tuple(take(sentence, "raw", str, where=where) for sentence in sentences)
    image_id = as_id(entry.get("cocoid", name), where=where)
    inside = find_picture(folder / entry.get("filepath", ""), name)
    picture = inside if is_file(inside) else find_picture(folder, name)
    return CaptionedImage(image_id, picture, captions, restval if split == "restval" else split)
