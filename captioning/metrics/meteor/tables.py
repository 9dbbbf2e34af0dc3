"""METEOR's word lists and paraphrases, as an index in the user's cache folder.

They come from the package pycocoevalcap: the paraphrase table is a file of it (62 MB, 5.3 million pairs), synonyms,
function words and abbreviations lie inside its jar. The index is built once and read as a memory map afterwards; the
installed package is only read.
"""

import gzip
import logging
import os
import shutil
import sys
import tempfile
import zipfile
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from captioning.errors import DataError
from captioning.metrics.word_tree import ROOT, TreeGrower, WordTree

EXTRA = "meteor"
"""The extra of this project that brings the package."""

LISTS = {
    "function_words": "function/english.words",
    "abbreviations": "nonbreaking/english.prefixes",
    "exceptions": "synonym/english.exceptions",
    "synsets": "synonym/english.synsets",
}
"""Name -> its file inside the jar."""

ARRAYS = ("edges", "keys", "starts", "partners")
FORMAT = 1
"""Goes up when the index is laid out otherwise, so that an old one is not read."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """Where pycocoevalcap keeps METEOR's data."""

    jar: Path
    """A zip with the word lists."""
    paraphrases: Path
    """Lines of probability, phrase, paraphrase, in turn; gzip."""

    @classmethod
    def installed(cls) -> "Source":
        """The installed package's; DataError names the extra where it is absent."""
        found = find_spec("pycocoevalcap")
        places = [] if found is None else [Path(place) for place in found.submodule_search_locations or ()]
        for place in places:
            source = cls(place / "meteor" / "meteor-1.5.jar", place / "meteor" / "data" / "paraphrase-en.gz")
            if source.jar.is_file() and source.paraphrases.is_file():
                return source
        raise DataError(
            "METEOR needs the word lists of the package pycocoevalcap, which is not installed: "
            f"pip install 'captioning[{EXTRA}]'"
        )

    def fingerprint(self) -> str:
        """Of the table's check sum and both sizes: another table gets another index."""
        with self.paraphrases.open("rb") as file:
            file.seek(-8, os.SEEK_END)
            check_sum = file.read().hex()
        return f"{check_sum}-{self.jar.stat().st_size:x}"

    def read_list(self, name: str) -> str:
        """One of `LISTS`."""
        with zipfile.ZipFile(self.jar) as jar:
            return jar.read(LISTS[name]).decode("utf-8")

    def read_phrases(self) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Many phrases and their paraphrases at a time, in the order of the table."""
        lines: list[bytes] = [b""]
        with gzip.open(self.paraphrases, "rb") as file:
            while block := file.read(1 << 24):
                first, *others = block.split(b"\n")
                lines[-1] += first
                lines += others
                whole = (len(lines) - 1) // 3 * 3
                yield lines[1:whole:3], lines[2:whole:3]
                del lines[:whole]


@dataclass(frozen=True)
class Tables:
    """The opened index."""

    tree: WordTree
    """The phrases of the paraphrase table."""
    keys: NDArray[np.int32]
    """Nodes of phrases that have paraphrases, sorted."""
    starts: NDArray[np.int32]
    """Where the paraphrases of each key begin in `partners`, and in the end their number."""
    partners: NDArray[np.int32]
    """Nodes of the paraphrases, for each key in the order of the table."""
    lists: dict[str, str]
    """The texts of `LISTS`."""


def user_cache() -> Path:
    """CAPTIONING_CACHE, else the folder `captioning` where the system keeps a user's caches."""
    if given := os.environ.get("CAPTIONING_CACHE"):
        return Path(given)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library/Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "captioning"


def open_tables(source: Source | None = None, cache: Path | None = None) -> Tables:
    """The index of `source` (None: the installed package), built into `cache` (None: the user's) if need be."""
    source = source or Source.installed()
    folder = (cache or user_cache()) / f"meteor-1.5-{FORMAT}-{source.fingerprint()}"
    if not folder.is_dir():
        _build(source, folder)
    arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS}
    words = (folder / "words.txt").read_text(encoding="utf-8").split("\n")
    lists = {name: (folder / f"{name}.txt").read_text(encoding="utf-8") for name in LISTS}
    tree = WordTree({word: number for number, word in enumerate(words)}, arrays.pop("edges"))
    return Tables(tree, lists=lists, **arrays)


def _build(source: Source, folder: Path) -> None:
    """Write the index beside its place, then move it there: another process sees it whole or not at all."""
    _log.info("METEOR: building its index in %s; this takes about 20 seconds, once", folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".unfinished-"))
    except OSError as error:
        raise DataError(
            f"METEOR: its index can't be written to {folder.parent} ({error.strerror}); "
            "have CAPTIONING_CACHE name a folder that can be written"
        ) from error
    try:
        _write(source, unfinished)
        if not folder.exists():
            unfinished.rename(folder)
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        if not folder.exists():  # else another process was faster
            raise DataError(
                f"METEOR: the index can't be made of {source.paraphrases} and {source.jar} ({error}); if they are "
                "damaged, install pycocoevalcap anew"
            ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(source: Source, folder: Path) -> None:
    for name in LISTS:
        (folder / f"{name}.txt").write_text(source.read_list(name), encoding="utf-8")
    phrases: dict[bytes, int] = defaultdict(count().__next__)
    sides: tuple[array, array] = (array("i"), array("i"))
    for columns in source.read_phrases():
        for side, column in zip(sides, columns, strict=True):
            side.extend([phrases[phrase] for phrase in column])
    tree, nodes = _tree(phrases)
    left, right = (nodes[np.array(side)] for side in sides)
    order = np.argsort(left, kind="stable")
    keys, starts = np.unique(left[order], return_index=True)
    arrays = (tree.edges, keys.astype(np.int32), np.append(starts, len(order)).astype(np.int32), right[order])
    for name, values in zip(ARRAYS, arrays, strict=True):
        np.save(folder / f"{name}.npy", values)
    (folder / "words.txt").write_text("\n".join(tree.words), encoding="utf-8", newline="\n")


def _tree(phrases: dict[bytes, int]) -> tuple[WordTree, NDArray[np.int32]]:
    """The tree, and the node of each phrase."""
    numbers: dict[bytes, int] = defaultdict(count().__next__)
    parts = [phrase.split() for phrase in phrases]
    lengths = np.fromiter(map(len, parts), np.int32, len(parts))
    flat = np.array([numbers[word] for word in chain.from_iterable(parts)], dtype=np.int64)
    begins = np.cumsum(lengths) - lengths
    grower = TreeGrower({word.decode("utf-8"): number for word, number in numbers.items()})
    nodes = np.full(len(parts), ROOT)
    for depth in range(int(lengths.max())):
        deep = lengths > depth
        nodes[deep] = grower.grow(nodes[deep], flat[begins[deep] + depth])
    return grower.tree(), nodes.astype(np.int32)
