"""Whether maps point at the thing that a word names, where the true place is known."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Pointing:
    """How often the largest weight lies on the true cell."""

    hits: int
    """Words whose largest weight lies on their cell."""
    words: int
    """Words that have a true cell."""

    @property
    def share(self) -> float:
        """hits / words; 0 without words. Chance is 1 / R."""
        return self.hits / self.words if self.words else 0.0


def pointing(maps: Iterable[np.ndarray], cells: Iterable[Sequence[int | None]]) -> Pointing:
    """Maps (T, rows, columns) of captions and the true cell of each word (None: it has none) -> hits and words."""
    hits = words = 0
    for of_caption, true_cells in zip(maps, cells, strict=True):
        largest = of_caption.reshape(len(of_caption), -1).argmax(1)
        for cell, true_cell in zip(largest, true_cells, strict=True):
            if true_cell is not None:
                words += 1
                hits += int(cell) == true_cell
    return Pointing(hits, words)
