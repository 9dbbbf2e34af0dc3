"""Flickr30k Entities (Plummer et al., 2015): boxes for the phrases of captions.

`Sentences/NAME.txt` holds a caption a line, its phrases marked `[/EN#283585/people Two men]`; the number names an
entity, whose boxes are in `Annotations/NAME.xml`. Of a phrase its last word has the boxes: in English it is the noun.
Entities without a box (whole scenes, things that can't be seen) give their words no place.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from captioning.data.files import read_text
from captioning.data.placed_caption import PlacedCaption, Tokenize
from captioning.data.records import CaptionSet
from captioning.errors import DataError
from captioning.features.geometry import Box

_PHRASE = re.compile(r"\[/EN#(\d+)(?:/[^ \]]*)? ([^\]]*)\]")
_SIDES = ("xmin", "ymin", "xmax", "ymax")


def read_entities(folder: Path, captions: CaptionSet, tokenize: Tokenize) -> dict[str, list[PlacedCaption]]:
    """image_id -> its captions, for the images of `captions` whose file's stem has both files. Raises DataError."""
    for name in ("Annotations", "Sentences"):
        if not (folder / name).is_dir():
            raise DataError(
                f"{folder}: expected the folders Annotations and Sentences of Flickr30k Entities, no {name}"
            )
    found = {}
    for record in captions.records:
        stem = record.path.stem
        annotation, sentences = folder / "Annotations" / f"{stem}.xml", folder / "Sentences" / f"{stem}.txt"
        if annotation.is_file() and sentences.is_file():
            size, boxes = _read_boxes(annotation)
            lines = [line for line in read_text(sentences).splitlines() if line.strip()]
            found[record.image_id] = [_placed(line, boxes, size, tokenize) for line in lines]
    return found


def _placed(
    sentence: str, boxes: dict[str, tuple[Box, ...]], size: tuple[int, int], tokenize: Tokenize
) -> PlacedCaption:
    words: list[str] = []
    of_words: list[tuple[Box, ...]] = []
    for text, entity in _parts(sentence):
        own = tokenize(text)
        words += own
        of_words += [()] * len(own)
        if own and entity is not None:
            of_words[-1] = boxes.get(entity, ())
    return PlacedCaption(tuple(words), tuple(of_words), size)


def _parts(sentence: str) -> Iterator[tuple[str, str | None]]:
    """The text between phrases, and the phrases with their entity."""
    end = 0
    for phrase in _PHRASE.finditer(sentence):
        yield sentence[end : phrase.start()], None
        yield phrase[2], phrase[1]
        end = phrase.end()
    yield sentence[end:], None


def _read_boxes(path: Path) -> tuple[tuple[int, int], dict[str, tuple[Box, ...]]]:
    """Width and height of the picture, and entity -> its boxes."""
    try:
        root = ElementTree.fromstring(read_text(path))
        size = int(root.findtext("size/width", "")), int(root.findtext("size/height", ""))
        found: dict[str, tuple[Box, ...]] = {}
        for thing in root.iter("object"):
            box = thing.find("bndbox")
            if box is not None:
                sides = Box(*(float(box.findtext(side, "")) for side in _SIDES))
                for name in thing.iter("name"):
                    entity = (name.text or "").strip()
                    found[entity] = (*found.get(entity, ()), sides)
    except (ElementTree.ParseError, ValueError) as error:
        raise DataError(f"{path}: expected an annotation with a size and boxes of objects ({error})") from None
    return size, found
