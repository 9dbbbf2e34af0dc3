"""What `captioning caption --overlay DIR` and `captioning demo` write for each picture."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from captioning.captioner import Caption, View
from captioning.decoders.decoder import HEADS
from captioning.viz.filmstrip import filmstrip, word_frames
from captioning.viz.overlay import MapStyle
from captioning.viz.page import PageEntry, write_page
from captioning.viz.sheet import save_picture

PAGE = "index.html"


class OverlayFolder:
    """A folder of filmstrips, maps and words, one set a picture, and a page of all."""

    def __init__(
        self,
        folder: Path,
        style: MapStyle,
        *,
        picture_format: str = "png",
        frames: bool = False,
        font: str | None = None,
    ) -> None:
        self.folder, self.style, self.format, self.frames, self.font = (
            folder,
            style,
            picture_format,
            frames,
            font,
        )
        self._entries: list[PageEntry] = []
        self._names: set[str] = set()

    def add(self, path: Path, image: Image.Image, caption: Caption, *, references: tuple[str, ...] = ()) -> None:
        """Write the picture's files, with a filmstrip for each head or member too; nothing for the page yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = self._free_name(path.stem)
        view = View(caption.maps, caption.placement, caption.details)
        self._write_view(name, image, caption, view)
        for number, member in enumerate(caption.members, start=1):
            self._write_view(f"{name}_member{number}", image, caption, member)
        (self.folder / f"{name}.json").write_text(
            json.dumps(_as_dict(path, caption), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
        if self.frames:
            self._write_frames(name, image, caption)
        self._entries.append(_page_entry(path, image, caption, references))

    def finish(
        self,
        *,
        title: str,
        model: str,
        introduction: str | None = None,
        scores: dict[str, float] | None = None,
    ) -> Path:
        """Write the page and return its path."""
        page = self.folder / PAGE
        told = introduction or f"Captions by {model}."
        write_page(page, self._entries, title=title, introduction=told, scores=scores, style=self.style)
        return page

    def _write_view(self, name: str, image: Image.Image, caption: Caption, view: View) -> None:
        """The filmstrip, one for each head too where there are heads, and the numbers."""
        heads = view.details.get(HEADS)
        of_heads = (
            [] if heads is None else [(f"{name}_head{n}", maps) for n, maps in enumerate(heads.swapaxes(0, 1), 1)]
        )
        for strip_name, maps in [(name, view.maps), *of_heads]:
            strip = filmstrip(image, caption.words, maps, view.placement, style=self.style, font=self.font)
            save_picture(strip, self.folder / f"{strip_name}.{self.format}")
        arrays: dict[str, Any] = {"maps": view.maps, "box": np.asarray(view.placement.box), **view.details}
        np.savez_compressed(self.folder / f"{name}.npz", **arrays)

    def _write_frames(self, name: str, image: Image.Image, caption: Caption) -> None:
        frames = word_frames(image, caption.maps, caption.placement, style=self.style)
        for number, (word, frame) in enumerate(zip(caption.words, frames, strict=True), start=1):
            letters = "".join(letter for letter in word if letter.isalnum()) or "word"
            save_picture(frame, self.folder / f"{name}_{number:02d}_{letters}.{self.format}")

    def _free_name(self, stem: str) -> str:
        name, number = stem, 1
        while name in self._names:
            number += 1
            name = f"{stem}-{number}"
        self._names.add(name)
        return name


def _as_dict(path: Path, caption: Caption) -> dict[str, object]:
    placement = caption.placement
    return {
        "picture": str(path),
        "caption": caption.text,
        "words": list(caption.words),
        "log_probabilities": list(caption.log_probabilities),
        "score": caption.score,
        "finished": caption.finished,
        "grid": list(caption.maps.shape[1:]),
        "picture_size": [placement.width, placement.height],
        "grid_box": list(placement.box),
        **{name: values.tolist() for name, values in caption.details.items() if values.ndim == 1},
    }


def _page_entry(path: Path, image: Image.Image, caption: Caption, references: tuple[str, ...]) -> PageEntry:
    return PageEntry(
        name=path.name,
        image=image,
        words=caption.words,
        maps=caption.maps,
        placement=caption.placement,
        log_probabilities=caption.log_probabilities[: len(caption.words)],
        note=None if caption.finished else "cut off at the longest length",
        references=references,
    )
