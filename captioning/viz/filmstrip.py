"""A caption as a filmstrip: the photo, then a tile a word with that word's map."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from captioning.errors import ConfigError
from captioning.features.geometry import Placement
from captioning.viz.colors import colorize
from captioning.viz.fonts import fitting_size, wrap
from captioning.viz.overlay import DEFAULT_STYLE, MapStyle, overlay, resized
from captioning.viz.sheet import Line, Sheet, Tile
from captioning.viz.upsampling import check_maps

_INK, _MUTED = "#16161a", "#6f6f78"
_MOST_COLUMNS = 5
_TALLEST = 1.25  # a tile's largest height, in tile widths: a tall picture is drawn narrower,
_NARROWEST = 0.6  # but leaves its word this much room


def filmstrip(
    image: Image.Image,
    words: Sequence[str],
    maps: np.ndarray,
    placement: Placement,
    *,
    style: MapStyle = DEFAULT_STYLE,
    columns: int | None = None,
    tile: int = 320,
    font: str | Path | None = None,
) -> Sheet:
    """The whole caption above a grid of tiles: the photo, then each word below the photo with its map.

    Beside each word stands the map's largest weight. A map shows how much each region contributes to the
    word's context vector; it does not explain the word.

    image: the upright original, RGB.
    words, maps: T words and (T, rows, columns) weights, finite and not negative.
    placement: where the maps' grid lies in `image`.
    columns: tiles in a row; None: at most five, rows evenly filled.
    tile: a tile's width in pixels, to which all letters and gaps are in proportion.
    font: a font file; None: Pillow's own, which has the letters of plain English only.

    `save_picture` writes the sheet, `.picture()` gives its pixels. Raises ShapeError for maps that don't fit.
    """
    check_maps(words, maps)
    layout = _Layout(image.size, len(words) + 1, columns, tile)
    lines = _caption(words, layout, font)
    top = layout.margin + len(lines) * layout.caption_step + layout.gap
    small, small_placement = resized(image, placement, layout.picture_size)
    tiles = [Tile(small, *layout.place(0, top))]
    for number, (word, weights, maximum) in enumerate(zip(words, maps, style.maxima(maps), strict=True), start=1):
        left, above = layout.place(number, top)
        tiles.append(Tile(overlay(small, weights, small_placement, style, maximum=maximum), left, above))
        lines += _label(word, weights, (left, above + small.height), layout, font)
    bottom = top + layout.rows * layout.row_step
    if words:
        bar, meaning = _legend(maps, placement, style, layout, bottom, font)
        tiles.append(bar)
        lines.append(meaning)
    height = bottom + round(layout.note_size) + layout.margin
    return Sheet(layout.width, height, tuple(tiles), tuple(lines), title=" ".join(words), font=font)


def word_frames(
    image: Image.Image, maps: np.ndarray, placement: Placement, *, style: MapStyle = DEFAULT_STYLE
) -> Iterator[Image.Image]:
    """T single pictures at the photo's own size, one a word, coloured as in the filmstrip."""
    for weights, maximum in zip(maps, style.maxima(maps), strict=True):
        yield overlay(image, weights, placement, style, maximum=maximum)


@dataclass(frozen=True)
class _Layout:
    """Where things stand on the sheet; all lengths are in pixels and follow from a tile's width."""

    image_size: tuple[int, int]
    tiles: int
    wanted_columns: int | None
    tile: int

    def __post_init__(self) -> None:
        if self.tile < 16 or (self.wanted_columns is not None and self.wanted_columns < 1):
            raise ConfigError(
                f"filmstrip: expected tile >= 16 and columns >= 1, got {self.tile} and {self.wanted_columns}"
            )

    @property
    def columns(self) -> int:
        if self.wanted_columns is not None:
            return min(self.wanted_columns, self.tiles)
        return -(-self.tiles // -(-self.tiles // _MOST_COLUMNS))

    @property
    def rows(self) -> int:
        return -(-self.tiles // self.columns)

    @property
    def picture_size(self) -> tuple[int, int]:
        width, height = self.image_size
        scale = min(self.tile / width, _TALLEST * self.tile / height)
        return max(1, round(scale * width)), max(1, round(scale * height))

    @property
    def cell_width(self) -> int:
        return max(self.picture_size[0], round(_NARROWEST * self.tile))

    @property
    def margin(self) -> int:
        return self.tile // 8

    @property
    def gap(self) -> int:
        return self.tile // 16

    @property
    def content_width(self) -> int:
        grid = self.columns * (self.cell_width + self.gap) - self.gap
        return max(grid, 2 * self.tile)  # room for the caption and the legend above and below a narrow grid

    @property
    def width(self) -> int:
        return self.content_width + 2 * self.margin

    @property
    def caption_size(self) -> float:
        return self.tile / 8

    @property
    def caption_step(self) -> int:
        return round(1.3 * self.caption_size)

    @property
    def word_size(self) -> float:
        return self.tile / 11

    @property
    def word_step(self) -> int:
        return round(1.6 * self.word_size)

    @property
    def note_size(self) -> float:
        return self.tile / 18

    @property
    def row_step(self) -> int:
        return self.picture_size[1] + self.word_step + self.gap

    def place(self, number: int, top: int) -> tuple[int, int]:
        """The left and top edge of a tile, below the sheet's `top`."""
        row, column = divmod(number, self.columns)
        return self.margin + column * (self.cell_width + self.gap), top + row * self.row_step


def _caption(words: Sequence[str], layout: _Layout, font: str | Path | None) -> list[Line]:
    size, step = layout.caption_size, layout.caption_step
    texts = wrap(" ".join(words), font, size=size, width=layout.content_width)
    return [Line(text, layout.margin, layout.margin + (n + 0.75) * step, size, _INK) for n, text in enumerate(texts)]


def _label(
    word: str, weights: np.ndarray, below: tuple[int, int], layout: _Layout, font: str | Path | None
) -> list[Line]:
    """The word under its tile, and to the right its largest weight, which the colours alone may hide."""
    left, top = below
    baseline, right = top + layout.word_step * 0.8, left + layout.cell_width
    number = Line(f"{weights.max():.2f}", right, baseline, layout.note_size, _MUTED, to_the_right=True)
    size = fitting_size(word, font, size=layout.word_size, width=layout.cell_width - 3 * layout.note_size)
    return [Line(word, left, baseline, size, _INK), number]


def _legend(
    maps: np.ndarray,
    placement: Placement,
    style: MapStyle,
    layout: _Layout,
    top: int,
    font: str | Path | None,
) -> tuple[Tile, Line]:
    """The colour map as a bar, and what its ends mean."""
    width, height = layout.tile // 2, max(1, round(layout.note_size * 0.6))
    ramp = colorize(np.linspace(0, 1, width), style.color_map)
    bar = Tile(Image.fromarray(np.repeat(ramp[None], height, axis=0)), layout.margin, top)
    largest = "the number beside the word" if style.normalization == "word" else f"{maps.max():.2f}"
    grey = "; grey: not shown to the model" if _cuts(placement) else ""
    text, left = f"weight, from 0 to {largest}{grey}", layout.margin + width + layout.gap / 2
    room = layout.margin + layout.content_width - left
    size = fitting_size(text, font, size=layout.note_size, width=room)
    return bar, Line(text, left, top + height, size, _MUTED)


def _cuts(placement: Placement) -> bool:
    """Whether a part of the picture lies outside the model's input."""
    left, top, right, bottom = placement.box
    return left > 0 or top > 0 or right < placement.width or bottom < placement.height
