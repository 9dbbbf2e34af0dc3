"""Whether the cells that a map shows are those that its word depends on: remove them and read again.

A removed cell holds what that cell holds on average over the images. For words that the captioner said itself, the
words before them given, cells are removed (deletion) or, from an image without any, put back (insertion; Petsiuk, Das
and Saenko, 2018), in four orders: by falling weight of the map, at random, and by falling attribution of two gradient
methods. The faster the log-probability falls under deletion, and rises under insertion, the better an order knows
what the word depends on. Cells are removed for the whole caption so far: what earlier words saw of them is gone too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from captioning.inspection.attribution import attribute, parameters_at_rest
from captioning.inspection.averages import Average, average
from captioning.inspection.said import SaidWords, WordProbability, say
from captioning.inspection.subject import Progress, Subject

ATTENTION, RANDOM = "attention", "random"
FRACTIONS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75)
TOP = 0.1
"""The part of the cells of which "the top cells" are told."""
OFTEN = 5
"""Words said so many times are told one by one."""
_ELEMENTS = 2**24
"""Numbers of regions at a time: 64 megabytes."""

Score = Callable[[Tensor, slice], Tensor]
"""Regions (m, R, D) of the words `rows` -> their log-probabilities (m,)."""


@dataclass(frozen=True)
class Curves:
    """log p of W words, as more and more cells are removed, or put back; of single words."""

    cells: tuple[int, ...]
    """How many, from 0 to R; K numbers."""
    deletion: np.ndarray
    """(W, K)."""
    insertion: np.ndarray
    """(W, K)."""


@dataclass(frozen=True)
class WordDrop:
    """One word of the vocabulary, wherever it was said."""

    times: int
    drop: float
    """Mean fall of log p without the map's top cells."""
    random: float
    """The same without as many random cells."""


@dataclass(frozen=True)
class Removal:
    """What was found of W words of the captioner's own captions."""

    words: int
    cells: tuple[int, ...]
    """The numbers of cells at which the curves were measured."""
    top: int
    """How many cells "the top cells" are."""
    deletion: Mapping[str, tuple[float, ...]]
    """Order -> mean log-probability at each number of cells."""
    insertion: Mapping[str, tuple[float, ...]]
    drop: Mapping[str, Average]
    """Order -> how far log p falls when its top cells are removed."""
    beyond_random: Mapping[str, Average]
    """Order but random -> its drop minus that of as many random cells."""
    beyond_attention: Mapping[str, Average]
    """Gradient method -> its drop minus that of the map's cells."""
    area: Mapping[str, tuple[Average, Average]]
    """Order -> mean height of its deletion curve (low is good) and of its insertion curve (high is good), in nats."""
    by_word: Mapping[str, WordDrop]
    """Words that were said often enough, by falling drop beyond random."""


def remove_cells(
    subject: Subject, *, words: int, attributions: Sequence[str], seed: int, progress: Progress | None = None
) -> Removal:
    """Of up to `words` words that the captioner says of the subject's images."""
    said = say(subject, words, seed=seed)
    probability = WordProbability(subject.captioner, *subject.grid)

    def score(regions: Tensor, rows: slice) -> Tensor:
        return probability(regions, said.read[rows], said.position[rows], said.target[rows])

    with subject.at_test_time(), parameters_at_rest(subject.captioner):
        values = _values(said, probability, attributions, seed)
        curves = {}
        for name, of_cells in values.items():
            with torch.no_grad():
                curves[name] = measure_curves(score, said, ranked(of_cells, seed))
            if progress is not None:
                progress(len(curves), len(values))
    return summarize(curves, said.image, said.words)


def ranked(values: np.ndarray, seed: int) -> np.ndarray:
    """(W, R) -> (W, R) each cell's place by falling value, from 0; equal ones in random order."""
    tie_breaks = np.random.default_rng((seed, 1)).random(values.shape)
    order = np.lexsort((tie_breaks, -values), axis=-1)
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.arange(values.shape[1])[None].repeat(len(values), 0), axis=1)
    return places


def measure_curves(score: Score, said: SaidWords, places: np.ndarray) -> Curves:
    """For cells removed and put back by `places` (W, R)."""
    cells = steps(places.shape[1])
    order = torch.from_numpy(places).to(said.regions.device)
    deletion, insertion = (np.empty((len(said), len(cells))) for _ in range(2))
    most = max(1, _ELEMENTS // said.baseline.numel())
    for start in range(0, len(said), most):
        rows = slice(start, min(start + most, len(said)))
        whole = said.regions_of(rows)
        for step, count in enumerate(cells):
            gone = (order[rows] < count).unsqueeze(-1)
            deletion[rows, step] = score(torch.where(gone, said.baseline, whole), rows).double().cpu().numpy()
            insertion[rows, step] = score(torch.where(gone, whole, said.baseline), rows).double().cpu().numpy()
    return Curves(cells, deletion, insertion)


def steps(regions: int) -> tuple[int, ...]:
    """The numbers of cells at which curves are measured: none, all, and parts between."""
    between = {min(regions, max(1, round(fraction * regions))) for fraction in FRACTIONS}
    return tuple(sorted({0, *between, regions}))


def summarize(curves: Mapping[str, Curves], image: np.ndarray, texts: Sequence[str]) -> Removal:
    """Means over words with intervals over images."""
    cells = next(iter(curves.values())).cells
    top = max(1, round(TOP * cells[-1]))
    at = cells.index(top)
    drops = {name: each.deletion[:, 0] - each.deletion[:, at] for name, each in curves.items()}
    gradients = [name for name in curves if name not in (ATTENTION, RANDOM)]
    return Removal(
        words=len(image),
        cells=cells,
        top=top,
        deletion={name: tuple(each.deletion.mean(0).tolist()) for name, each in curves.items()},
        insertion={name: tuple(each.insertion.mean(0).tolist()) for name, each in curves.items()},
        drop={name: average(each, image) for name, each in drops.items()},
        beyond_random={name: average(drops[name] - drops[RANDOM], image) for name in drops if name != RANDOM},
        beyond_attention={name: average(drops[name] - drops[ATTENTION], image) for name in gradients},
        area={
            name: (average(_height(each.deletion, cells), image), average(_height(each.insertion, cells), image))
            for name, each in curves.items()
        },
        by_word=_by_word(texts, drops[ATTENTION], drops[RANDOM]),
    )


def _by_word(texts: Sequence[str], drops: np.ndarray, random: np.ndarray) -> dict[str, WordDrop]:
    names, place, times = np.unique(np.array(texts), return_inverse=True, return_counts=True)
    means, of_random = (np.bincount(place, each) / times for each in (drops, random))
    often = np.flatnonzero(times >= OFTEN)
    order = often[np.argsort(of_random[often] - means[often], kind="stable")]
    return {str(names[i]): WordDrop(int(times[i]), float(means[i]), float(of_random[i])) for i in order}


def _height(curve: np.ndarray, cells: Sequence[int]) -> np.ndarray:
    """(W, K) -> (W,) the mean height, by trapezoids."""
    return np.trapezoid(curve, np.array(cells), axis=1) / cells[-1]


def _values(
    said: SaidWords, probability: WordProbability, attributions: Sequence[str], seed: int
) -> dict[str, np.ndarray]:
    """Order -> (W, R) by which cells are ranked."""
    noise = np.random.default_rng((seed, 2)).random(said.maps.shape)
    values = {ATTENTION: said.maps, RANDOM: noise}
    most = max(1, _ELEMENTS // said.baseline.numel())
    for method in attributions:
        parts = []
        for start in range(0, len(said), most):
            rows = slice(start, start + most)
            about = said.read[rows], said.position[rows], said.target[rows]
            parts.append(attribute(method, probability, said.regions_of(rows), said.baseline, *about).cpu())
        values[method] = torch.cat(parts).double().numpy()
    return values
