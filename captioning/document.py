"""A report as blocks, each of which can say itself in Markdown and in HTML; and its charts as SVG.

Texts hold plain words with **bold** and `code`.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Protocol

from captioning.metrics.table import markdown_table


class Block(Protocol):
    """A part of a report."""

    def markdown(self) -> str:
        """As Markdown."""

    def html(self) -> str:
        """As HTML that needs no other file."""


@dataclass(frozen=True)
class Heading:
    """A heading of level 1 to 3."""

    text: str
    level: int = 2

    def markdown(self) -> str:
        """As Markdown."""
        return f"{'#' * self.level} {self.text}"

    def html(self) -> str:
        """As HTML."""
        return f"<h{self.level}>{inline(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str

    def markdown(self) -> str:
        """As Markdown."""
        return self.text

    def html(self) -> str:
        """As HTML."""
        return f"<p>{inline(self.text)}</p>"


@dataclass(frozen=True)
class Items:
    """A list of short texts."""

    texts: Sequence[str]

    def markdown(self) -> str:
        """As Markdown."""
        return "\n".join(f"- {text}" for text in self.texts)

    def html(self) -> str:
        """As HTML."""
        return "<ul>" + "".join(f"<li>{inline(text)}</li>" for text in self.texts) + "</ul>"


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first row is the heading, the first column text."""

    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """As Markdown."""
        return markdown_table(self.rows)

    def html(self) -> str:
        """As HTML, in a box that scrolls where the table is wide."""
        heading, *body = self.rows
        head = "".join(f"<th>{inline(cell)}</th>" for cell in heading)
        lines = "".join("<tr>" + "".join(f"<td>{inline(cell)}</td>" for cell in row) + "</tr>" for row in body)
        return f'<div class="wide"><table><tr>{head}</tr>{lines}</table></div>'


@dataclass(frozen=True)
class Chart:
    """An SVG with a sentence on what it shows; beside the Markdown it is a file `charts/NAME.svg`."""

    name: str
    svg: str
    caption: str

    def markdown(self) -> str:
        """As Markdown."""
        return f"![{self.caption}](charts/{self.name}.svg)\n\n*{self.caption}*"

    def html(self) -> str:
        """As HTML; a data URI keeps the ids of one chart apart from another's."""
        source = b64encode(self.svg.encode()).decode("ascii")
        caption = inline(self.caption)
        return (
            f'<figure><img alt="{escape(self.caption)}" src="data:image/svg+xml;base64,{source}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )


@dataclass(frozen=True)
class Answer:
    """What one variant said of an image."""

    variant: str
    caption: str
    value: str
    strip: str | None = None
    """The name of its filmstrip among the report's pictures."""


@dataclass(frozen=True)
class SideBySide:
    """An image, and what two variants said of it."""

    image: str
    references: Sequence[str]
    answers: Sequence[Answer]

    def markdown(self) -> str:
        """As Markdown: words only."""
        lines = [f"- `{self.image}`" + "".join(f": {text}" for text in self.references[:1])]
        lines += [f"  - `{each.variant}` ({each.value}): {each.caption}" for each in self.answers]
        return "\n".join(lines)

    def html(self) -> str:
        """As HTML, with filmstrips where there are any."""
        said = "".join(
            f"<div><p><code>{escape(each.variant)}</code> <b>{escape(each.value)}</b> {escape(each.caption)}</p>"
            + (f'<img class="strip" alt="" data-strip="{escape(each.strip)}">' if each.strip else "")
            + "</div>"
            for each in self.answers
        )
        references = "".join(f"<p class='reference'>{escape(text)}</p>" for text in self.references)
        return f'<section class="pair"><p><code>{escape(self.image)}</code></p>{references}{said}</section>'


def inline(text: str) -> str:
    """HTML of a text with **bold** and `code`."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", marked)


STYLE = """
:root { color-scheme: light dark; --line: #8885; --muted: #777; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1.2rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 2.4rem; border-bottom: 1px solid var(--line); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: Canvas; }
figure { margin: 1.2rem 0; } figure img { max-width: 100%; background: #fff; border-radius: 4px; }
figcaption, .reference { color: var(--muted); font-size: .9rem; } .reference { margin: .1rem 0; }
.pair { border: 1px solid var(--line); border-radius: 6px; padding: .4rem .9rem; margin: .8rem 0; }
.pair p { margin: .3rem 0; } .strip { max-width: 100%; } code { font-size: .9em; }
"""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_SCRIPT = """
const strips = JSON.parse(document.getElementById("strips").textContent);
for (const image of document.querySelectorAll("[data-strip]")) image.src = strips[image.dataset.strip];
"""


def write_markdown(path: Path, blocks: Sequence[Block]) -> None:
    """The report, and its charts in a folder beside it."""
    charts = path.parent / "charts"
    charts.mkdir(parents=True, exist_ok=True)
    for block in blocks:
        if isinstance(block, Chart):
            (charts / f"{block.name}.svg").write_text(block.svg, encoding="utf-8")
    path.write_text("\n\n".join(block.markdown() for block in blocks) + "\n", encoding="utf-8")


def write_html(path: Path, title: str, blocks: Sequence[Block], strips: Mapping[str, str]) -> None:
    """One page with all inside. `strips`: name -> data URI, each stored once however often it is shown."""
    stored = json.dumps(dict(strips)).replace("</", "<\\/")
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        *(block.html() for block in blocks),
        f'<script type="application/json" id="strips">{stored}</script><script>{_SCRIPT}</script>',
        "</body></html>",
    ]
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
