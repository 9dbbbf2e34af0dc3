"""COCO's instances: boxes of things of 80 categories, to go with captions of the same pictures.

The file does not say which word of a caption means which thing. A word (or several, "fire hydrant") that is a
category's name, or its plural, gets the boxes of all things of that category in the picture; other words get none, so
"man" has no place though a person is there.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from captioning.data.json_files import as_id, read_images, take
from captioning.data.placed_caption import PlacedCaption, Tokenize
from captioning.data.records import CaptionSet
from captioning.errors import DataError
from captioning.features.geometry import Box

Names = Mapping[tuple[str, ...], str]
"""The words of a category's name, singular or plural -> the category's id."""


def read_coco_instances(path: Path, captions: CaptionSet, tokenize: Tokenize) -> dict[str, list[PlacedCaption]]:
    """image_id -> its captions, for the images of `captions` whose file name is in the file. Raises DataError."""
    content = read_images(path)
    names = _names(take(content, "categories", list, where=str(path)), tokenize, path)
    things = _things(take(content, "annotations", list, where=str(path)), path)
    by_file = {take(image, "file_name", str, where=f"{path}, images"): image for image in content["images"]}
    found = {}
    for record in captions.records:
        image = by_file.get(record.path.name)
        if image is not None:
            where = f"{path}, image {record.path.name}"
            size = take(image, "width", int, where=where), take(image, "height", int, where=where)
            own = things.get(as_id(image.get("id"), where=where), {})
            found[record.image_id] = [_placed(tokenize(text), names, own, size) for text in record.captions]
    return found


def _placed(
    words: Sequence[str], names: Names, things: Mapping[str, Sequence[Box]], size: tuple[int, int]
) -> PlacedCaption:
    boxes: list[tuple[Box, ...]] = [()] * len(words)
    longest = max(map(len, names), default=0)
    for start in range(len(words)):
        for length in range(1, min(longest, len(words) - start) + 1):
            category = names.get(tuple(words[start : start + length]))
            if category is not None:
                boxes[start : start + length] = [tuple(things.get(category, ()))] * length
    return PlacedCaption(tuple(words), tuple(boxes), size)


def _names(categories: Sequence[Any], tokenize: Tokenize, path: Path) -> Names:
    found: dict[tuple[str, ...], str] = {}
    for category in categories:
        name = take(category, "name", str, where=f"{path}, categories")
        number = as_id(category.get("id"), where=f"{path}, category {name}")
        found |= {tuple(tokenize(each)): number for each in (name, *_plurals(name))}
    return found


def _plurals(name: str) -> tuple[str, ...]:
    """As English has them, for names as COCO's are: dogs, buses, knives, people."""
    if name == "person":
        return ("people", "persons")
    if name.endswith("fe"):
        return (f"{name[:-2]}ves",)
    return (f"{name}es",) if name.endswith(("s", "sh", "ch")) else (f"{name}s",)


def _things(annotations: Sequence[Any], path: Path) -> Mapping[str, Mapping[str, Sequence[Box]]]:
    """image -> category -> boxes."""
    found: dict[str, dict[str, list[Box]]] = defaultdict(lambda: defaultdict(list))
    for annotation in annotations:
        where = f"{path}, annotations"
        box = take(annotation, "bbox", list, where=where)
        if len(box) != 4 or not all(isinstance(side, int | float) for side in box):
            raise DataError(f"{where}: expected bbox as left, top, width and height, got {box}")
        left, top, width, height = box
        image, category = (as_id(annotation.get(key), where=where) for key in ("image_id", "category_id"))
        found[image][category].append(Box(left, top, left + width, top + height))
    return found
