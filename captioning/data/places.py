"""Captions whose words have a place in the picture: of the drawn set, of Flickr30k Entities, of COCO's instances."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from captioning.data.coco_instances import read_coco_instances
from captioning.data.drawn.painting import CELL, SIDE
from captioning.data.drawn.scenes import GRID
from captioning.data.flickr30k_entities import read_entities
from captioning.data.placed_caption import PlacedCaption, Tokenize
from captioning.data.records import CaptionSet
from captioning.data.synthetic import DrawnSet
from captioning.errors import DataError
from captioning.features.geometry import Box

Places = Mapping[str, Sequence[PlacedCaption]]
"""image_id -> its captions with places."""


def read_places(path: Path, captions: CaptionSet, tokenize: Tokenize) -> Places:
    """The places of these images' words: of a folder with `Annotations` and `Sentences` (Flickr30k Entities), or of a
    COCO instances file (JSON), whose boxes go to words of the captions that name their category.

    Raises DataError where it is neither, or has none of the images.
    """
    if path.is_dir():
        found = read_entities(path, captions, tokenize)
    elif path.suffix == ".json":
        found = read_coco_instances(path, captions, tokenize)
    else:
        raise DataError(
            f"{path}: expected a folder with Annotations and Sentences (Flickr30k Entities) or a COCO instances file "
            "(.json)" + ("" if path.exists() else ", found nothing there")
        )
    if not found:
        raise DataError(f"{path}: expected places for some of the {len(captions)} images, found none of them in it")
    return found


def drawn_places(drawn: DrawnSet, tokenize: Tokenize) -> Places:
    """The cell of each colour and shape word. Raises DataError where the vocabulary cuts words otherwise."""
    found = {}
    for record in drawn.captions.records:
        words, cells = tuple(tokenize(record.captions[0])), drawn.word_cells[record.image_id]
        if len(words) != len(cells):
            raise DataError(
                f"drawn set: expected a vocabulary of words, for which the true cells are known, got one that cuts "
                f"{record.captions[0]!r} into {len(words)}"
            )
        boxes = tuple(() if cell is None else (_box(cell),) for cell in cells)
        found[record.image_id] = [PlacedCaption(words, boxes, (SIDE, SIDE))]
    return found


def _box(cell: int) -> Box:
    row, column = divmod(cell, GRID)
    return Box(column * CELL, row * CELL, (column + 1) * CELL, (row + 1) * CELL)
