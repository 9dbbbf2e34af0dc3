"""Document frequencies: how common an n-gram is among images, which CIDEr weighs it by."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from captioning.errors import DataError
from captioning.metrics.ngrams import Compared, Words
from captioning.metrics.word_tree import ROOT, UNKNOWN, Integers, WordTree

FILE = "document_frequencies.npz"
"""The file's name beside a model."""


def find_frequencies(path: Path | str) -> Path:
    """The file itself, or that in a model's folder or in a run's folder."""
    path = Path(path)
    return next((place for place in (path / FILE, path / "model" / FILE) if place.is_file()), path)


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many images' references each n-gram occurs; all references of an image are one document."""

    tree: WordTree
    """The n-grams."""
    counts: Integers
    """(nodes,) images with a reference that has the n-gram."""
    documents: int
    """Images counted, at least 2: with one image every n-gram would weigh nothing."""

    def __post_init__(self) -> None:
        if self.documents < 2:
            raise DataError(
                "document frequencies: expected the references of at least 2 images, got those of "
                f"{self.documents}: they are undefined; give those of a larger set, such as the training set"
            )

    @classmethod
    def of(cls, references: Sequence[Sequence[Words]]) -> "DocumentFrequencies":
        """Counts over images, each given as its tokenized references."""
        return cls.of_references(Compared([], np.zeros(0, dtype=np.int64), references))

    @classmethod
    def of_references(cls, compared: Compared) -> "DocumentFrequencies":
        """Counts over the images whose references captions are compared with."""
        tree, counts = compared.counted.tree, compared.others
        keys = np.sort(compared.image_of_reference[counts.caption] * tree.nodes + counts.ngram)
        keys = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
        return cls(tree, np.bincount(keys % tree.nodes, minlength=tree.nodes), len(compared.references))

    def count(self, *ngram: str) -> int:
        """Images that have the n-gram."""
        node = self.tree.node(ngram)
        return 0 if node == UNKNOWN else int(self.counts[node])

    def weight(self, *ngram: str) -> float:
        """log(documents / documents that have the n-gram); one that none has weighs as if one had."""
        return math.log(self.documents) - math.log(max(1, self.count(*ngram)))

    def weights_of(self, tree: WordTree) -> NDArray[np.float64]:
        """(nodes,) the weight of each n-gram of a tree."""
        if tree is self.tree:
            return self._weights
        nodes = tree.nodes_in(self.tree)
        return np.where(nodes > ROOT, self._weights[nodes], math.log(self.documents))

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        return math.log(self.documents) - np.log(np.maximum(1, self.counts))

    def save(self, path: Path) -> None:
        """Write a file (.npz) that `load` reads."""
        words = np.frombuffer("\n".join(self.tree.words).encode(), dtype=np.uint8)
        with path.open("wb") as file:
            np.savez_compressed(
                file, words=words, edges=self.tree.edges, counts=self.counts, documents=np.array(self.documents)
            )

    @classmethod
    def load(cls, path: Path) -> "DocumentFrequencies":
        """The frequencies that `save` wrote. No code of the file is run. Raises DataError."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                return cls._from_arrays(stored)
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise DataError(
                f"{path}: expected document frequencies as `captioning evaluate --save_frequencies` writes them "
                f"({error})"
            ) from error

    @classmethod
    def _from_arrays(cls, stored: Mapping[str, Any]) -> "DocumentFrequencies":
        words = stored["words"].tobytes().decode().split("\n")
        tree = WordTree({word: number for number, word in enumerate(words)}, stored["edges"])
        return cls(tree, stored["counts"], int(stored["documents"]))
