"""What is in a drawn picture, before it is painted: objects on a grid, and which two of them are described.

The rule of the captions: the object in a full frame is the subject, the one between four corners the
landmark; they share a row or a column. All others are not mentioned. So each cell can be read by itself, but
how the subject lies to the landmark follows from their places alone: all four relations are equally likely
for the same objects, so that what is known of a picture as a whole, such as the mean of its cells, says one
caption in four right at best. Nor does the subject's place tell the relation: the landmark has to be looked at.
"""

from dataclasses import dataclass, fields, replace
from itertools import product

import numpy as np

COLORS = ("red", "yellow", "green", "blue", "purple", "pink")
SHAPES = ("circle", "square", "triangle", "diamond", "star", "cross")
RELATIONS = ("left of", "right of", "above", "below")
IN_ROW = tuple(RELATIONS.index(name) for name in ("left of", "right of"))
"""The relations of two objects in one row; those of the others are in one column."""
AHEAD = tuple(RELATIONS.index(name) for name in ("left of", "above"))
"""The relations whose landmark is in a later column or row than the subject."""
GRID = 6
"""Rows, and columns."""
FEWEST_OTHERS, MOST_OTHERS = 2, 6
"""How many objects a picture holds besides the two that are described."""
SUBJECT, LANDMARK = 0, 1

HELD_OUT_PAIRS = tuple((kind, kind) for kind in range(len(COLORS)))
"""(color, shape), as indices. Only test pictures show these: every colour and every shape is known from other pairs."""
TRAINING_PAIRS = tuple(pair for pair in product(range(len(COLORS)), range(len(SHAPES))) if pair not in HELD_OUT_PAIRS)


@dataclass(frozen=True)
class Scenes:
    """N scenes of up to O objects; object 0 is the subject, 1 the landmark."""

    cells: np.ndarray
    """(N, O) where each object is: row * GRID + column."""
    colors: np.ndarray
    """(N, O) indices into `COLORS`."""
    shapes: np.ndarray
    """(N, O) indices into `SHAPES`."""
    exists: np.ndarray
    """(N, O) boolean."""
    relations: np.ndarray
    """(N) indices into `RELATIONS`: how the subject lies to the landmark."""

    def __len__(self) -> int:
        return len(self.cells)

    def take(self, scenes: slice) -> "Scenes":
        """Some of the scenes."""
        return Scenes(*(getattr(self, field.name)[scenes] for field in fields(self)))

    def caption(self, scene: int) -> str:
        """The one caption of a scene: "a red circle left of a blue square"."""
        subject, landmark = (
            f"a {COLORS[self.colors[scene, thing]]} {SHAPES[self.shapes[scene, thing]]}"
            for thing in (SUBJECT, LANDMARK)
        )
        return f"{subject} {RELATIONS[self.relations[scene]]} {landmark}"

    def word_cells(self, scene: int) -> tuple[int | None, ...]:
        """For each word of the caption the cell it speaks of; None but for colours and shapes."""
        subject, landmark = (int(self.cells[scene, thing]) for thing in (SUBJECT, LANDMARK))
        between = (None,) * len(RELATIONS[self.relations[scene]].split())
        return (None, subject, subject, *between, None, landmark, landmark)


def draw_scenes(count: int, generator: np.random.Generator) -> Scenes:
    """`count` scenes, all of whose objects are of `TRAINING_PAIRS`."""
    relations = generator.integers(len(RELATIONS), size=count)
    described = _described_cells(relations, generator)
    cells = np.hstack([described, _other_cells(described, generator)])
    exists = np.ones((count, 2 + MOST_OTHERS), dtype=bool)
    number = generator.integers(FEWEST_OTHERS, MOST_OTHERS, endpoint=True, size=(count, 1))
    exists[:, 2:] = np.arange(MOST_OTHERS) < number
    kinds = np.array(TRAINING_PAIRS)[generator.integers(len(TRAINING_PAIRS), size=exists.shape)]
    return Scenes(cells, kinds[..., 0], kinds[..., 1], exists, relations)


def show_held_out(scenes: Scenes, count: int, generator: np.random.Generator) -> Scenes:
    """The same scenes, but in the first `count` of them the subject or the landmark is of a held-out pair."""
    colors, shapes = scenes.colors.copy(), scenes.shapes.copy()
    kinds = np.array(HELD_OUT_PAIRS)[generator.integers(len(HELD_OUT_PAIRS), size=count)]
    changed = generator.integers(2, size=count)
    colors[np.arange(count), changed], shapes[np.arange(count), changed] = kinds.T
    return replace(scenes, colors=colors, shapes=shapes)


def _described_cells(relations: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(N, 2) subject and landmark: two cells of one row (left of, right of) or column (above, below).

    The subject is never at the border and the landmark any number of steps from it, so that all relations are
    equally likely wherever the subject is.
    """
    subject = generator.integers(1, GRID - 1, size=(len(relations), 2))
    scene, axis = np.arange(len(relations)), np.isin(relations, IN_ROW).astype(int)
    ahead = np.isin(relations, AHEAD)
    room = np.where(ahead, GRID - 1 - subject[scene, axis], subject[scene, axis])
    steps = 1 + (generator.random(len(relations)) * room).astype(int)
    landmark = subject.copy()
    landmark[scene, axis] += np.where(ahead, steps, -steps)
    return np.stack([subject, landmark], axis=1) @ (GRID, 1)


def _other_cells(taken: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(N, MOST_OTHERS) different cells besides the `taken` (N, 2)."""
    lottery = generator.random((len(taken), GRID * GRID))
    np.put_along_axis(lottery, taken, np.inf, axis=1)
    return np.argsort(lottery, axis=1)[:, :MOST_OTHERS]
