"""Scenes as pixels: antialiased, and no two alike (place, size, turn, brightness and grain vary)."""

import math

import numpy as np

from captioning.data.drawn.scenes import COLORS, GRID, LANDMARK, SHAPES, SUBJECT, Scenes

CELL = 16
"""Pixels of a cell's side; nothing is painted across the border of a cell."""
SIDE = CELL * GRID

RGB = {
    "red": (214, 40, 40),
    "yellow": (244, 226, 66),
    "green": (52, 168, 76),
    "blue": (52, 96, 226),
    "purple": (142, 52, 186),
    "pink": (250, 150, 196),
}
FRAME = np.float32(248)
"""The grey level of the frames around what is described."""
# (corners, inner radius / outer radius, turn in radians): between two corners an outline goes straight to the
# inner radius and back, so that a regular polygon is a star of ratio cos(π / corners).
STARS = {
    "circle": (24, math.cos(math.pi / 24), 0.0),
    "square": (4, math.cos(math.pi / 4), math.pi / 4),
    "triangle": (3, math.cos(math.pi / 3), -math.pi / 2),
    "diamond": (4, math.cos(math.pi / 4), 0.0),
    "star": (5, 0.45, -math.pi / 2),
}
CROSS_ARM = 0.34
"""Half the width of a cross's arm, as a part of its radius."""
CORNER = 3.0
"""A corner of a frame begins this many pixels from the middle of a side."""
_SCENES_AT_ONCE = 1000


def paint(scenes: Scenes, generator: np.random.Generator) -> np.ndarray:
    """(N, SIDE, SIDE, 3) uint8 pictures."""
    starts = range(0, len(scenes), _SCENES_AT_ONCE)
    parts = [scenes.take(slice(start, start + _SCENES_AT_ONCE)) for start in starts]
    return np.concatenate([_paint_part(part, generator) for part in parts])


def _paint_part(scenes: Scenes, generator: np.random.Generator) -> np.ndarray:
    canvas = np.empty((len(scenes), GRID * GRID, CELL, CELL, 3), dtype=np.float32)
    canvas[:] = generator.uniform(30, 70, size=(len(scenes), 1, 1, 1, 1))
    scene, thing = np.nonzero(scenes.exists)
    cells = scenes.cells[scene, thing]
    ink = np.array([RGB[color] for color in COLORS], dtype=np.float32)[scenes.colors[scene, thing]]
    ink *= generator.uniform(0.85, 1.02, size=(len(ink), 1))
    _blend(canvas, (scene, cells), _coverage(scenes.shapes[scene, thing], generator), ink)
    for mark, whole in ((SUBJECT, True), (LANDMARK, False)):
        frames = _frame_coverage(len(scenes), generator, whole=whole)
        _blend(canvas, (np.arange(len(scenes)), scenes.cells[:, mark]), frames, np.full((1, 3), FRAME))
    canvas += generator.integers(-6, 6, endpoint=True, size=(*canvas.shape[:-1], 1), dtype=np.int8)
    pictures = canvas.reshape(-1, GRID, GRID, CELL, CELL, 3).swapaxes(2, 3).reshape(-1, SIDE, SIDE, 3)
    return pictures.clip(0, 255).astype(np.uint8)


def _blend(canvas: np.ndarray, where: tuple[np.ndarray, np.ndarray], coverage: np.ndarray, ink: np.ndarray) -> None:
    below = canvas[where]
    canvas[where] = below + coverage[..., None] * (ink[:, None, None, :] - below)


def _coverage(shapes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(objects, CELL, CELL) how much of each pixel an object covers, its place, size and turn varied."""
    count = len(shapes)
    radius = _vary(5.0, 6.0, generator, count)
    turn = _vary(-0.12, 0.12, generator, count)
    across, down = (centres - _vary(-0.6, 0.6, generator, count) for centres in _pixel_centres())
    distance = np.empty((count, CELL, CELL), dtype=np.float32)
    for index, name in enumerate(SHAPES):
        own = shapes == index
        distance[own] = _distance(name, across[own], down[own], radius[own], turn[own])
    return np.clip(0.5 - distance, 0, 1)


def _vary(low: float, high: float, generator: np.random.Generator, count: int) -> np.ndarray:
    return generator.uniform(low, high, size=(count, 1, 1)).astype(np.float32)


def _pixel_centres() -> np.ndarray:
    """(2, CELL, CELL) x and y of each pixel, from the middle of its cell."""
    steps = np.arange(CELL, dtype=np.float32) + 0.5 - CELL / 2
    return np.stack(np.meshgrid(steps, steps, indexing="xy"))


def _distance(shape: str, across: np.ndarray, down: np.ndarray, radius: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Signed distance to the outline, in pixels, negative inside; too small near corners."""
    corners, ratio, own_turn = STARS.get(shape, (4, 1.0, 0.0))
    half = math.pi / corners
    angle = np.arctan2(down, across) - own_turn - turn
    # All corners are alike: fold the plane onto half of one, with the corner on the x axis.
    folded = np.abs((angle + half) % (2 * half) - half)
    length = np.hypot(across, down)
    x, y = length * np.cos(folded), length * np.sin(folded)
    if shape == "cross":
        return np.maximum(x - radius, y - CROSS_ARM * radius)
    inward, sideways = 1 - ratio * math.cos(half), ratio * math.sin(half)
    return ((x - radius) * sideways + y * inward) / math.hypot(inward, sideways)


def _frame_coverage(count: int, generator: np.random.Generator, *, whole: bool) -> np.ndarray:
    """(count, CELL, CELL) a square outline just inside the cell; its corners only, unless `whole`."""
    across, down = np.abs(_pixel_centres())
    from_outline = np.abs(np.maximum(across, down) - _vary(6.9, 7.1, generator, count))
    coverage = np.clip(1.3 - from_outline, 0, 1)
    return coverage if whole else coverage * (np.minimum(across, down) > CORNER)
