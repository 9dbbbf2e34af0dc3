"""From weights on a grid to a value for each pixel of the original picture, exact at the cells' centres."""

from collections.abc import Sequence

import numpy as np

from captioning.errors import ShapeError
from captioning.features.geometry import Placement


def upsample(
    weights: np.ndarray, placement: Placement, size: tuple[int, int], *, smooth: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The weights (rows, columns) at the pixels of the picture drawn at `size` = (width, height).

    At a cell's centre the value is the cell's weight. Between centres it follows a Catmull-Rom curve along
    each axis (smooth), or it is that of the cell that the pixel lies in; outside, the border's value holds.

    Returns the values and, boolean, whether the model saw the pixel, both (height, width).
    """
    check_weights(weights)
    (rows, columns), (width, height), box = weights.shape, size, placement.box
    y = (np.arange(height) + 0.5) * placement.height / height
    x = (np.arange(width) + 0.5) * placement.width / width
    mixing = _curve if smooth else _nearest
    down = mixing((y - box.top) / (box.bottom - box.top) * rows - 0.5, rows)
    across = mixing((x - box.left) / (box.right - box.left) * columns - 0.5, columns)
    seen = np.outer((box.top < y) & (y < box.bottom), (box.left < x) & (x < box.right))
    return down @ weights @ across.T, seen


def check_weights(weights: np.ndarray) -> None:
    """Raises ShapeError unless `weights` is a (rows, columns) map of finite numbers that are not negative."""
    if weights.ndim != 2 or 0 in weights.shape:
        raise ShapeError(f"weights: expected (rows, columns), got {weights.shape}; give one map at a time")
    if not np.isfinite(weights).all() or weights.min() < 0:
        raise ShapeError(
            "weights: expected finite numbers that are not negative, got "
            f"{weights.min()} to {weights.max()}; give weights, not scores"
        )


def check_maps(words: Sequence[str], maps: np.ndarray) -> None:
    """Raises ShapeError unless `maps` (T, rows, columns) has a sound map for each of the T words."""
    if maps.ndim != 3 or len(maps) != len(words):
        raise ShapeError(f"maps: expected ({len(words)}, rows, columns) for {len(words)} words, got {maps.shape}")
    for weights in maps:
        check_weights(weights)


def _curve(places: np.ndarray, cells: int) -> np.ndarray:
    """(P, cells): what each cell adds at `places` (P,), in cells, cell c centred at c (Catmull-Rom)."""
    places = np.clip(places, 0, cells - 1)
    first = np.floor(places).astype(int)
    t = places - first
    parts = (
        (-t + 2 * t**2 - t**3) / 2,
        (2 - 5 * t**2 + 3 * t**3) / 2,
        (t + 4 * t**2 - 3 * t**3) / 2,
        (-(t**2) + t**3) / 2,
    )
    mixing = np.zeros((len(places), cells))
    for step, part in enumerate(parts, start=-1):
        np.add.at(mixing, (np.arange(len(places)), np.clip(first + step, 0, cells - 1)), part)
    return mixing


def _nearest(places: np.ndarray, cells: int) -> np.ndarray:
    """(P, cells): one for the cell that a place lies in, zero for the others."""
    return np.eye(cells)[np.clip(np.rint(places).astype(int), 0, cells - 1)]
