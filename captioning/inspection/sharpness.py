"""What a captioner's maps are like: how sharp, how they move from word to word, how they differ from their mean.

Maps lie on the simplex, so two of them are compared by their total variation ½ Σ_r |a_r − b_r|: the part of the weight
that would have to be moved to make one of the other, from 0 to 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from captioning.inspection.averages import Average, average
from captioning.inspection.subject import Words

ENTROPY, EFFECTIVE, LARGEST = "entropy", "effective_cells", "largest_weight"
CHANGE, FROM_MEAN, FROM_UNIFORM = "change", "distance_to_mean", "distance_to_uniform"
HEAD_CELLS = "effective_cells_of_a_look"
_LONGEST = 12
"""Positions told one by one: few captions are longer."""
_QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Distribution:
    """A measure over words."""

    mean: Average
    quantiles: tuple[float, float, float]
    """5 %, median, 95 % of the words."""
    by_position: tuple[float, ...]
    """Mean of the first words, the second ones, ... up to a dozen."""


@dataclass(frozen=True)
class Sharpness:
    """Everything about the maps by themselves."""

    measures: Mapping[str, Distribution]
    """By name: entropy in nats, effective cells, ..., and `gate` and `sentinel` where the decoder has one."""
    mean_map: np.ndarray
    """(R,) the mean over all words."""
    mean_from_uniform: float
    """Total variation between the mean map and the uniform one."""
    peak_and_probability: float
    """Spearman's rank correlation of a word's largest weight with its log-probability."""
    words: int
    """How many there were, END not counted."""


def describe_maps(words: Words) -> Sharpness:
    """Of all words but END."""
    shown = words.take(~words.is_end)
    mean_map, cells = shown.maps.mean(0), shown.maps.shape[1]
    entropies = entropy(shown.maps)
    values = {
        ENTROPY: entropies,
        EFFECTIVE: np.exp(entropies),
        LARGEST: shown.maps.max(1),
        CHANGE: change(shown),
        FROM_MEAN: distance(shown.maps, mean_map),
        FROM_UNIFORM: distance(shown.maps, np.full(cells, 1 / cells)),
        **shown.numbers,
    }
    if shown.looks.shape[1] > 1:
        values[HEAD_CELLS] = np.exp(entropy(shown.looks.double().numpy())).mean(1)
    measures = {name: _distribution(each, shown) for name, each in values.items() if np.isfinite(each).any()}
    return Sharpness(
        measures,
        mean_map=mean_map,
        mean_from_uniform=float(distance(mean_map, np.full(cells, 1 / cells))),
        peak_and_probability=rank_correlation(values[LARGEST], shown.log_probability),
        words=len(shown),
    )


def entropy(maps: np.ndarray) -> np.ndarray:
    """(..., R) -> (...) −Σ a log a in nats: 0 for one cell, log R for an even map. Its exponential counts cells."""
    logarithms = np.log(maps, out=np.zeros_like(maps), where=maps > 0)
    return -(maps * logarithms).sum(-1)


def distance(maps: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(..., R) and (..., R) -> (...) total variation."""
    return np.abs(maps - others).sum(-1) / 2


def rank_correlation(values: np.ndarray, others: np.ndarray) -> float:
    """Spearman's ρ of (n,) and (n,): Pearson's of the ranks, equal values sharing theirs; 0 where one is constant."""
    one, other = (_centred_ranks(each) for each in (values, others))
    scale = np.sqrt((one @ one) * (other @ other))
    return float(one @ other / scale) if scale else 0.0


def _centred_ranks(values: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    return np.asarray(ranks - ranks.mean())


def change(words: Words) -> np.ndarray:
    """(n,) total variation between a word's map and that of the word before; NaN at a first word."""
    order = np.lexsort((words.position, words.caption))
    maps = words.maps[order]
    moved = np.full(len(words), np.nan)
    follows = words.caption[order][1:] == words.caption[order][:-1]
    moved[order[1:]] = np.where(follows, distance(maps[1:], maps[:-1]), np.nan)
    return moved


def _distribution(values: np.ndarray, words: Words) -> Distribution:
    known = np.isfinite(values)
    values, image, position = values[known], words.image[known], words.position[known]
    places = range(min(_LONGEST, position.max() + 1))
    means = [float(values[position == place].mean()) if (position == place).any() else np.nan for place in places]
    low, middle, high = (float(each) for each in np.quantile(values, _QUANTILES))
    return Distribution(average(values, image), (low, middle, high), tuple(means))
