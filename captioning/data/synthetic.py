"""The drawn set: coloured shapes on a grid, one caption a picture, and the cell that each word speaks of."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from captioning.data.drawn.painting import paint
from captioning.data.drawn.scenes import draw_scenes, show_held_out
from captioning.data.records import CaptionedImage, CaptionSet
from captioning.data.sources import PictureArrays
from captioning.features.preprocessing import Preprocessing

WordCells = tuple[int | None, ...]
"""For each word of a caption the cell (row * 6 + column) it speaks of; None but for colours and shapes."""


@dataclass(frozen=True)
class DrawnSet:
    """Drawn pictures, kept in memory."""

    captions: CaptionSet
    """One caption a picture; train, val and test."""
    pixels: np.ndarray
    """(N, 96, 96, 3) uint8, in the order of the records."""
    word_cells: Mapping[str, WordCells]
    """image_id -> the true cells of its caption's words."""
    unseen: frozenset[str]
    """The test pictures whose caption names a colour-shape pair that no training picture shows."""

    def pictures(self, preprocessing: Preprocessing) -> PictureArrays:
        """The source of these pictures for a `CaptionDataset`."""
        places = {record.image_id: place for place, record in enumerate(self.captions.records)}
        return PictureArrays(self.pixels, places, preprocessing)


def draw_set(
    *, train: int = 12_000, val: int = 500, test: int = 2_000, unseen_share: float = 0.05, seed: int = 0
) -> DrawnSet:
    """Draw a set; the same seed draws the same pictures, and the size of a split changes no other split.

    In the first `unseen_share` of the test pictures one of the two objects is of a pair of colour and shape
    that is drawn nowhere else (`scenes.HELD_OUT_PAIRS`). They are few, so that a model can pass without
    composing what it has learned; `unseen` names them, to be scored by themselves.
    """
    counts = {"train": train, "val": val, "test": test}
    unseen = round(unseen_share * test)
    records: list[CaptionedImage] = []
    pixels: list[np.ndarray] = []
    word_cells: dict[str, WordCells] = {}
    for place, (split, count) in enumerate(counts.items()):
        generator = np.random.default_rng((seed, place))
        scenes = draw_scenes(count, generator)
        if split == "test":
            scenes = show_held_out(scenes, unseen, generator)
        pixels.append(paint(scenes, generator))
        for scene in range(count):
            image_id = _image_id(split, scene)
            word_cells[image_id] = scenes.word_cells(scene)
            records.append(CaptionedImage(image_id, Path(image_id), (scenes.caption(scene),), split))
    names = frozenset(_image_id("test", scene) for scene in range(unseen))
    return DrawnSet(CaptionSet(tuple(records)), np.concatenate(pixels), word_cells, names)


def _image_id(split: str, scene: int) -> str:
    return f"{split}_{scene:05d}.png"


def write_drawn_set(folder: Path, drawn: DrawnSet) -> Path:
    """Write the pictures as PNG and `captions.jsonl`, a table that `read_table` reads; return the table's
    path.

    Its column "cells" holds the true cells. The table is written last, so that what has one is whole.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for record, pixels in zip(drawn.captions.records, drawn.pixels, strict=True):
        Image.fromarray(pixels).save(folder / record.image_id)
        row = {"image": record.image_id, "caption": record.captions[0], "split": record.split}
        lines.append(json.dumps(row | {"cells": drawn.word_cells[record.image_id]}))
    table = folder / "captions.jsonl"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table


def read_word_cells(table: Path) -> dict[str, WordCells]:
    """The true cells that `write_drawn_set` wrote, by image id."""
    rows = [json.loads(line) for line in table.read_text(encoding="utf-8").splitlines()]
    return {row["image"]: tuple(row["cells"]) for row in rows}
