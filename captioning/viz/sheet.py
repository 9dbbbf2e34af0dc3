"""A sheet of pictures and lines of text, drawn as pixels (PNG, PDF) or written as SVG from one layout."""

from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageDraw

from captioning.errors import ConfigError
from captioning.viz.embedding import jpeg_uri
from captioning.viz.fonts import load_font, warn_of_missing_letters

PICTURE_SUFFIXES = (".png", ".pdf", ".svg")

_PAPER = "#ffffff"
_PDF_RESOLUTION = 200.0  # pixels an inch


@dataclass(frozen=True)
class Tile:
    """A picture on a sheet."""

    image: Image.Image
    """RGB, drawn pixel by pixel."""
    left: int
    """Of its left edge, in pixels of the sheet."""
    top: int
    """Of its top edge."""


@dataclass(frozen=True)
class Line:
    """A line of text on a sheet."""

    text: str
    """May be in any script."""
    x: float
    """Where it begins, in pixels of the sheet; where it ends, for a line that stands to the right."""
    baseline: float
    """The line that its letters stand on."""
    size: float
    """Of the letters, in pixels."""
    color: str
    """Hexadecimal, "#rrggbb"."""
    to_the_right: bool = False
    """Whether it ends at its place instead of beginning there."""


@dataclass(frozen=True)
class Sheet:
    """Pictures and text on white paper."""

    width: int
    """In pixels."""
    height: int
    """In pixels."""
    tiles: tuple[Tile, ...]
    """The pictures; none lies over another."""
    lines: tuple[Line, ...]
    """The text."""
    title: str
    """What the sheet shows, for those who can't see it."""
    font: str | Path | None = None
    """A font file; None: Pillow's own."""

    def picture(self) -> Image.Image:
        """The sheet as pixels (RGB). Letters that the font lacks give one warning, and are boxes."""
        canvas = Image.new("RGB", (self.width, self.height), _PAPER)
        for tile in self.tiles:
            canvas.paste(tile.image, (tile.left, tile.top))
        draw = ImageDraw.Draw(canvas)
        for line in self.lines:
            font = load_font(self.font, line.size)
            anchor = "rs" if line.to_the_right else "ls"
            draw.text((line.x, line.baseline), line.text, fill=line.color, font=font, anchor=anchor)
        warn_of_missing_letters((line.text for line in self.lines), load_font(self.font, 20))
        return canvas

    def svg(self) -> str:
        """The sheet as one SVG document: pictures embedded, text as text that can be searched and copied."""
        family = "Helvetica, Arial, sans-serif"
        if self.font is not None:
            family = f"'{load_font(self.font, 20).getname()[0]}', {family}"
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" role="img" font-family="{escape(family)}">',
            f"<title>{escape(self.title)}</title>",
            f'<rect width="100%" height="100%" fill="{_PAPER}"/>',
            *map(_svg_of_tile, self.tiles),
            *map(_svg_of_line, self.lines),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"


def save_picture(picture: Sheet | Image.Image, path: str | Path) -> None:
    """Writes a sheet or a plain picture as the suffix says: .png, .pdf or .svg; makes the folder if need be.

    Raises ConfigError for another suffix.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in PICTURE_SUFFIXES:
        raise ConfigError(f"{path}: expected a name that ends in {', '.join(PICTURE_SUFFIXES)}, got {suffix!r}")
    content = _encoded(picture, suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _encoded(picture: Sheet | Image.Image, suffix: str) -> bytes:
    if suffix == ".svg":
        sheet = picture if isinstance(picture, Sheet) else _sheet_of_one(picture)
        return sheet.svg().encode("utf-8")
    drawn = picture.picture() if isinstance(picture, Sheet) else picture
    stream = BytesIO()
    if suffix == ".pdf":
        drawn.save(stream, "PDF", resolution=_PDF_RESOLUTION, quality=95)
    else:
        drawn.save(stream, "PNG")
    return stream.getvalue()


def _sheet_of_one(image: Image.Image) -> Sheet:
    return Sheet(image.width, image.height, (Tile(image, 0, 0),), (), title="")


def _svg_of_tile(tile: Tile) -> str:
    size = f'width="{tile.image.width}" height="{tile.image.height}"'
    return f'<image x="{tile.left}" y="{tile.top}" {size} href="{jpeg_uri(tile.image, quality=92)}"/>'


def _svg_of_line(line: Line) -> str:
    anchor = ' text-anchor="end"' if line.to_the_right else ""
    place = f'x="{line.x:g}" y="{line.baseline:g}" font-size="{line.size:g}" fill="{line.color}"{anchor}'
    return f"<text {place}>{escape(line.text)}</text>"
