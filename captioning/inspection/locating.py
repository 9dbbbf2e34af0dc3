"""Whether maps lie on the thing that a word names, where its place in the picture is known.

A place is one or more boxes in pixels of the picture; they go through the picture's own geometry (resizing, cropping,
padding) to the model's grid. Two measures of a word's map:

    hit   the centre of the cell of largest weight lies in a box (the pointing game; Zhang et al., 2016)
    mass  the weight inside the boxes, each cell counting by the part of it that they cover (Liu et al., 2017)

beside what is reached without knowing the word: by a uniform map (chance), and by the mean map of all words, which
knows where things are in most pictures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from captioning.data.batch import CaptionBatch, collate
from captioning.data.placed_caption import PlacedCaption
from captioning.data.places import Places
from captioning.data.transforms import place
from captioning.errors import DataError
from captioning.features.geometry import Box, Placement
from captioning.inspection.averages import Average, average
from captioning.inspection.subject import Progress, Subject, Words, features_of, read_words

MAP, UNIFORM, MEAN = "map", "uniform", "mean"


@dataclass(frozen=True)
class Known:
    """Where the things are that captions name."""

    captions: Places
    """image_id -> captions whose words have places."""
    sizes: Mapping[str, tuple[int, int]]
    """image_id -> width and height of the picture as it was looked at."""
    origin: str
    """Where the places come from, in words."""


@dataclass(frozen=True)
class Located:
    """Hits and mass of words with a place."""

    words: int
    images: int
    hit: Mapping[str, Average]
    """`map`, `uniform` and `mean` -> share of the words."""
    mass: Mapping[str, Average]
    """The same for the weight inside."""
    hit_beyond_mean: Average
    """Of the words' own maps, minus that of the mean map."""
    mass_beyond_mean: Average


@dataclass(frozen=True)
class Coverage:
    """One word's place on the grid."""

    inside: np.ndarray
    """(R,) the part of each cell that lies in a box."""
    centres: np.ndarray
    """(R,) boolean: whether the cell's centre does."""


def locate(subject: Subject, known: Known, mean_map: np.ndarray, progress: Progress | None = None) -> Located:
    """Over the captions of the subject's images whose words have places; mean_map (R,) is that of all words.

    Raises DataError where no word has a place within the model's grid.
    """
    words, places = _read(subject, known, progress)
    seen = {row: each for row, each in enumerate(places) if each is not None and each.inside.any()}
    if not seen:
        raise DataError(
            f"regions: expected places for words of the {subject.images} images that are inspected, within what the "
            "model sees of them, got none; ids or file names must agree"
        )
    rows, covered = list(seen), list(seen.values())
    inside, centres = (np.stack([getattr(each, name) for each in covered]) for name in ("inside", "centres"))
    return measure(words.maps[rows], inside, centres, mean_map, words.image[rows])


def measure(
    maps: np.ndarray, inside: np.ndarray, centres: np.ndarray, mean_map: np.ndarray, image: np.ndarray
) -> Located:
    """Of maps (n, R) with places `inside` and `centres` (n, R)."""
    hits = {
        MAP: np.take_along_axis(centres, maps.argmax(1)[:, None], 1)[:, 0].astype(float),
        UNIFORM: centres.mean(1),
        MEAN: centres[:, mean_map.argmax()].astype(float),
    }
    masses = {MAP: (maps * inside).sum(1), UNIFORM: inside.mean(1), MEAN: inside @ mean_map}
    return Located(
        words=len(maps),
        images=len(np.unique(image)),
        hit={name: average(each, image) for name, each in hits.items()},
        mass={name: average(each, image) for name, each in masses.items()},
        hit_beyond_mean=average(hits[MAP] - hits[MEAN], image),
        mass_beyond_mean=average(masses[MAP] - masses[MEAN], image),
    )


def cover(boxes: Sequence[Box], placement: Placement, *, rows: int, columns: int) -> Coverage:
    """Boxes in pixels of the picture -> their place on the model's grid; where boxes overlap they count once."""
    left, top, right, bottom = placement.box
    across = np.linspace(left, right, columns + 1)
    down = np.linspace(top, bottom, rows + 1)
    # Between neighbouring edges of cells and boxes everything is the same: small rectangles, each in one cell.
    x, y = (_edges(grid, [box[side::2] for box in boxes]) for side, grid in enumerate((across, down)))
    middle_x, middle_y = (x[1:] + x[:-1]) / 2, (y[1:] + y[:-1]) / 2
    area = np.outer(np.diff(y), np.diff(x)) * _within(boxes, middle_x, middle_y)
    inside = np.zeros((rows, columns))
    places = [np.searchsorted(grid, middle) - 1 for grid, middle in ((down, middle_y), (across, middle_x))]
    np.add.at(inside, np.ix_(*places), area)
    cell = (right - left) / columns * (bottom - top) / rows
    centres = _within(boxes, (across[1:] + across[:-1]) / 2, (down[1:] + down[:-1]) / 2)
    return Coverage((inside / cell).ravel(), centres.ravel())


def _edges(grid: np.ndarray, sides: Sequence[Sequence[float]]) -> np.ndarray:
    """All edges along one axis, those of boxes only where they lie in the grid."""
    of_boxes = np.array([edge for pair in sides for edge in pair])
    return np.unique(np.concatenate([grid, of_boxes[(of_boxes > grid[0]) & (of_boxes < grid[-1])]]))


def _within(boxes: Sequence[Box], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(len(y), len(x)) whether each point lies in any box."""
    found = np.zeros((len(y), len(x)), dtype=bool)
    for left, top, right, bottom in boxes:
        found |= np.outer((y >= top) & (y <= bottom), (x >= left) & (x <= right))
    return found


def _read(subject: Subject, known: Known, progress: Progress | None) -> tuple[Words, list[Coverage | None]]:
    """The captions as the subject reads them, and the place of each word, row by row."""
    batches: list[CaptionBatch] = []
    placed: list[PlacedCaption | None] = []
    for batch in subject.batches:
        kept = [place for place, image_id in enumerate(batch.image_ids) if known.captions.get(image_id)]
        if kept:
            own = [known.captions[batch.image_ids[place]] for place in kept]
            batches.append(_with_captions(subject, batch, kept, own))
            most = max(map(len, own))
            placed += [of_image[each] if each < len(of_image) else None for of_image in own for each in range(most)]
    if not batches:
        raise DataError("regions: expected places for some of the images that are inspected, got none")
    words = read_words(Subject(subject.captioner, subject.search, tuple(batches)), progress)
    ids = [image_id for batch in batches for image_id in batch.image_ids]
    places: list[Coverage | None] = []
    for number, position, image in zip(words.caption, words.position, words.image, strict=True):
        caption = placed[number]
        boxes = caption.boxes_of(position) if caption is not None else ()
        places.append(_cover(subject, boxes, caption.size, known.sizes[ids[image]]) if caption and boxes else None)
    return words, places


def _with_captions(
    subject: Subject, batch: CaptionBatch, kept: Sequence[int], captions: Sequence[Sequence[PlacedCaption]]
) -> CaptionBatch:
    """These images of the batch, with these captions."""
    encode, device = subject.captioner.vocabulary.encode, subject.captioner.device
    features = features_of(batch).rows_of(torch.tensor(kept, device=device))
    encoded = [[encode(caption.words) for caption in of_image] for of_image in captions]
    return collate([batch.image_ids[place] for place in kept], features, encoded).to(device)


def _cover(subject: Subject, boxes: Sequence[Box], annotated: tuple[int, int], size: tuple[int, int]) -> Coverage:
    """From the annotated picture's pixels to those of the picture that was looked at, and to its grid."""
    x, y = (own / other for own, other in zip(size, annotated, strict=True))
    scaled = [Box(left * x, top * y, right * x, bottom * y) for left, top, right, bottom in boxes]
    rows, columns = subject.grid
    return cover(scaled, place(*size, subject.captioner.encoder.preprocessing), rows=rows, columns=columns)
