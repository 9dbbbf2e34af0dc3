"""What a run said of each image, as counts that add up: the value of any set of images follows from their sum.

BLEU has its ten counts an image; pointing has hits and words; every other measure is a mean over images, that is, a
sum and a number of images. So a resample of images is a vector of weights, and its value that of weights @ counts.
CIDEr-D's document frequencies are those of the whole split, in every resample.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from captioning.data.synthetic import WordCells
from captioning.evaluation import DrawnScores
from captioning.metrics import Scores
from captioning.metrics.attention import pointing
from captioning.metrics.bleu import bleu, bleu_statistics
from captioning.metrics.ngrams import LONGEST, Compared
from captioning.metrics.suite import compared_words

Values = NDArray[np.float64]
Counts = dict[str, Values]
"""Table -> (N, k), a row an image."""

BLEU, POINTING, EXACT = "BLEU", "pointing", "exact"


@dataclass(frozen=True)
class Measure:
    """How a measure's value follows from summed counts."""

    name: str
    table: str
    """Its counts."""
    value: Callable[[Values], Values]
    """(..., k) sums -> (...) values."""


def measures_of(tables: Sequence[str]) -> list[Measure]:
    """The measures that these tables of counts are enough for."""
    found = []
    for table in tables:
        if table == BLEU:
            found += [
                Measure(f"BLEU-{n}{suffix}", BLEU, partial(_bleu, longest=n, brevity_penalty=penalty))
                for suffix, penalty in (("", True), ("-no-penalty", False))
                for n in range(1, LONGEST + 1)
            ]
        else:
            found.append(Measure(table, table, _ratio))
    return found


def _bleu(sums: Values, *, longest: int, brevity_penalty: bool) -> Values:
    values: Values = bleu(sums, brevity_penalty=brevity_penalty)[..., longest - 1]
    return values


def _ratio(sums: Values) -> Values:
    """The first sum over the second; 0 where that is 0."""
    over, under = sums[..., 0], sums[..., 1]
    return np.divide(over, under, out=np.zeros_like(over), where=under > 0)


def count_answers(
    said: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    scores: Scores,
    *,
    drawn: DrawnScores | None = None,
    cells: Mapping[str, WordCells] | None = None,
) -> Counts:
    """The counts of all images, in the order of the references.

    `cells`: image -> the true cells of its words, where the maps lie on these. A measure whose corpus value is neither
    BLEU nor the mean over images has no counts, and is not tested over images.
    """
    words = [compared_words(said[image]) for image in references]
    others = [[compared_words(other) for other in of_image] for of_image in references.values()]
    counts: Counts = {BLEU: bleu_statistics(Compared.one_each(words, others)).astype(np.float64)}
    for name, values in scores.per_image.items():
        of_images = np.array([values[image] for image in references], dtype=np.float64)
        if not name.startswith(BLEU) and np.isclose(of_images.mean(), scores.corpus[name], rtol=1e-9):
            counts[name] = _with_ones(of_images)
    if drawn is not None:
        right = np.array([said[image] == others[0] for image, others in references.items()])
        counts[EXACT] = _with_ones(right.astype(np.float64))
        if cells is not None:
            pairs = zip(references, right, strict=True)
            hits = [_pointing(drawn, image, cells[image]) if exact else (0, 0) for image, exact in pairs]
            counts[POINTING] = np.array(hits, dtype=np.float64)
    return counts


def _with_ones(values: Values) -> Values:
    return np.column_stack([values, np.ones_like(values)])


def _pointing(drawn: DrawnScores, image: str, cells: WordCells) -> tuple[int, int]:
    found = pointing([drawn.captions[image].maps], [cells])
    return found.hits, found.words


def write_counts(path: Path, counts: Counts) -> None:
    """Store them, compressed."""
    np.savez_compressed(path, allow_pickle=False, **counts)


def read_counts(path: Path) -> Counts:
    """The inverse of `write_counts`."""
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
