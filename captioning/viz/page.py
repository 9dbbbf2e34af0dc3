"""One HTML page for all photos: point at a word, see its map. All is inside; it opens without a server."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import exp
from pathlib import Path

import numpy as np
from PIL import Image

from captioning.errors import ShapeError
from captioning.features.geometry import Placement
from captioning.viz.colors import COLOR_MAPS
from captioning.viz.embedding import jpeg_uri, webp_uri
from captioning.viz.overlay import DEFAULT_STYLE, MapStyle, check_size, map_layer, resized
from captioning.viz.page_assets import SCRIPT, STYLE
from captioning.viz.upsampling import check_maps

_PHOTO_SIDE = 880  # pixels of the longer side, at most
_MAP_SIDE = 240  # maps are smooth: the browser stretches them over the photo
_TALLEST = "30rem"

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


@dataclass(frozen=True)
class PageEntry:
    """A photo with its caption and, for each of the T words, its map."""

    name: str
    """What to call the photo: its file name, say."""
    image: Image.Image
    """The upright original, RGB."""
    words: Sequence[str]
    """The T words of the caption."""
    maps: np.ndarray
    """(T, rows, columns) weights, finite and not negative."""
    placement: Placement
    """Where the maps' grid lies in the picture."""
    log_probabilities: Sequence[float]
    """One a word, natural logarithm."""
    note: str | None = None
    """A remark beside the name."""
    references: Sequence[str] = ()
    """Captions that people wrote, to compare with."""

    def __post_init__(self) -> None:
        check_maps(self.words, self.maps)
        check_size(self.image, self.placement)
        if len(self.log_probabilities) != len(self.words):
            raise ShapeError(
                f"log_probabilities of {self.name}: expected one for each of the {len(self.words)} words, "
                f"got {len(self.log_probabilities)}"
            )


def write_page(
    path: str | Path,
    entries: Iterable[PageEntry],
    *,
    title: str,
    introduction: str | None = None,
    scores: Mapping[str, float] | None = None,
    style: MapStyle = DEFAULT_STYLE,
) -> None:
    """Writes the page; makes its folder if need be.

    introduction: plain text under the title. scores: name → value, shown with three decimals.
    Photos are stored as JPEG of at most 880 pixels, so that tens of them make a page of a few megabytes.
    """
    articles = [_article(entry, style) for entry in entries]
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style></head>",
        f"<body>{_header(title, introduction, scores, style)}",
        "<main>",
        *articles,
        f"</main><script>{SCRIPT}</script></body></html>",
    ]
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _header(title: str, introduction: str | None, scores: Mapping[str, float] | None, style: MapStyle) -> str:
    told = f'<p class="introduction">{escape(introduction)}</p>' if introduction else ""
    pairs = [f"<div><dt>{escape(name)}</dt><dd>{value:.3f}</dd></div>" for name, value in (scores or {}).items()]
    table = f'<dl class="scores">{"".join(pairs)}</dl>' if pairs else ""
    ramp = ", ".join(f"#{color}" for color in COLOR_MAPS[style.color_map].split())
    return (
        f"<header><h1>{escape(title)}</h1>{told}{table}"
        '<p class="key">Point at a word, tap it or move to it with the Tab and arrow keys to see its map. '
        "The bar under a word is its probability. A map’s weight is the size of a region’s contribution to "
        "the word, not an explanation of it; grey was not shown to the model.</p>"
        f'<p class="key scale">weight 0<span class="ramp" style="background: linear-gradient(90deg, {ramp})">'
        f"</span>the {style.normalization}’s largest</p>"
        '<noscript><p class="key">Maps need JavaScript; captions and photos do not.</p></noscript></header>'
    )


def _article(entry: PageEntry, style: MapStyle) -> str:
    caption = " ".join(entry.words)
    maxima = style.maxima(entry.maps)
    words = [_word(entry, position, maxima[position], style) for position in range(len(entry.words))]
    at_rest = f"log-probability of these words {_signed(sum(entry.log_probabilities))}" if words else "no words"
    note = f" · {escape(entry.note)}" if entry.note else ""
    return (
        f"<article>{_photo(entry, caption)}"
        f'<div class="text"><p class="caption" dir="auto">{" ".join(words)}</p>'
        f'<p class="reading" aria-live="polite">{at_rest}</p>'
        f'<p class="about">{escape(entry.name)}{note}</p>{_references(entry.references)}</div></article>'
    )


def _photo(entry: PageEntry, caption: str) -> str:
    width, height = entry.image.size
    photo, _ = resized(entry.image, entry.placement, _within(entry.image.size, _PHOTO_SIDE))
    source = jpeg_uri(photo)
    frame = f"aspect-ratio: {width} / {height}; width: min(100%, calc({_TALLEST} * {width} / {height}))"
    return (
        f'<div class="photo"><div class="frame" style="{frame}">'
        f'<img src="{source}" alt="{escape(f"{entry.name}: {caption}")}">'
        '<img class="map" alt=""></div></div>'
    )


def _word(entry: PageEntry, position: int, maximum: float, style: MapStyle) -> str:
    word, weights = entry.words[position], entry.maps[position]
    log_probability = entry.log_probabilities[position]
    probability = exp(log_probability)
    size = _within(entry.image.size, _MAP_SIDE)
    source = webp_uri(map_layer(weights, entry.placement, size, style, maximum=maximum))
    reading = (
        f"{word}: probability {probability:.2f}, log-probability {_signed(log_probability)}; "
        f"largest weight {weights.max():.2f}, {_peak(weights, entry.placement)}"
    )
    return (
        f'<button type="button" class="word" aria-pressed="false" style="--probability: {probability:.3f}" '
        f'data-map="{source}" data-reading="{escape(reading)}">{escape(word)}</button>'
    )


def _references(references: Sequence[str]) -> str:
    if not references:
        return ""
    items = "".join(f'<li dir="auto">{escape(reference)}</li>' for reference in references)
    return f'<details class="references"><summary>What people wrote</summary><ul>{items}</ul></details>'


def _peak(weights: np.ndarray, placement: Placement) -> str:
    """Where the largest weight lies, in words, for those who can't see the map."""
    if weights.min() == weights.max():
        return "the same everywhere"
    rows, columns = weights.shape
    row, column = divmod(int(weights.argmax()), columns)
    cell = placement.cell(row, column, rows=rows, columns=columns)
    across = (cell.left + cell.right) / 2 / placement.width
    down = (cell.top + cell.bottom) / 2 / placement.height
    if not (0 <= across <= 1 and 0 <= down <= 1):
        return "outside the photo"
    return f"{across:.0%} from the left, {down:.0%} from the top"


def _within(size: tuple[int, int], side: int) -> tuple[int, int]:
    """`size` made smaller, if need be, until its longer side is at most `side`."""
    scale = min(1.0, side / max(size))
    return max(1, round(scale * size[0])), max(1, round(scale * size[1]))


def _signed(number: float) -> str:
    return f"{number:.2f}".replace("-", "−")
