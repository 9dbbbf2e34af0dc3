"""Letters: Pillow's own scalable font, or a font file that the caller chooses."""

import unicodedata
import warnings
from collections.abc import Iterable
from pathlib import Path

from PIL import ImageFont

from captioning.errors import ConfigError

_NEVER_ASSIGNED = "\U0010ffff"
_INVISIBLE = ("Z", "C")  # the Unicode categories of blanks and of joiners and controls
_NAMED_AT_MOST = 12


def load_font(font: str | Path | None, size: float) -> ImageFont.FreeTypeFont:
    """The font file `font` (None: Pillow's own) at `size` pixels; ConfigError when it can't be read."""
    try:
        size = max(1.0, size)  # FreeType draws nothing smaller
        loaded = ImageFont.load_default(size) if font is None else ImageFont.truetype(str(font), size)
    except OSError as error:
        raise ConfigError(f"font: expected a TrueType or OpenType file, got {font} ({error})") from error
    if not isinstance(loaded, ImageFont.FreeTypeFont):
        raise ConfigError("font: this Pillow was built without FreeType; install Pillow from its wheels")
    return loaded


def missing_letters(texts: Iterable[str], font: ImageFont.FreeTypeFont) -> list[str]:
    """The letters of `texts` for which `font` has only its box for missing ones, each once, in order."""
    box = bytes(font.getmask(_NEVER_ASSIGNED))
    letters = dict.fromkeys("".join(texts))
    visible = [letter for letter in letters if not unicodedata.category(letter).startswith(_INVISIBLE)]
    return [letter for letter in visible if bytes(font.getmask(letter)) == box]


def warn_of_missing_letters(texts: Iterable[str], font: ImageFont.FreeTypeFont) -> None:
    """One warning, which names the letters, if `font` lacks any."""
    missing = missing_letters(texts, font)
    if missing:
        named = " ".join(missing[:_NAMED_AT_MOST]) + (" ..." if len(missing) > _NAMED_AT_MOST else "")
        warnings.warn(
            f"font {font.getname()[0]} has no letters for {named}: boxes stand for them. "
            "Choose a font file that has them, or save as SVG",
            stacklevel=2,
        )


def fitting_size(text: str, font: str | Path | None, *, size: float, width: float) -> float:
    """`size`, or the smaller one at which `text` is no wider than `width` pixels."""
    length = load_font(font, size).getlength(text)
    return size if length <= width else size * width / length


def wrap(text: str, font: str | Path | None, *, size: float, width: float) -> list[str]:
    """`text` cut at its blanks into lines no wider than `width` pixels (a longer single word stays whole)."""
    measure = load_font(font, size).getlength
    lines: list[str] = []
    for word in text.split():
        if lines and measure(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
