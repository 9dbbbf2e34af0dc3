"""The whole procedure: every variant against the reference, over images and over seeds, corrected, and what holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from captioning.ablation.counts import Counts, Measure, Values, measures_of
from captioning.ablation.image_tests import (
    Resampling,
    bootstrap_interval,
    bootstrap_sums,
    randomization_p,
    swapped_sums,
)
from captioning.ablation.seed_tests import SeedDifference, holm, paired_seeds

ALPHA = 0.05

RunCounts = Mapping[str, Mapping[int, Counts]]
"""Variant -> seed -> its counts."""


@dataclass(frozen=True)
class Comparison:
    """A variant against the reference, by one measure, over the seeds that both have."""

    variant: str
    measure: str
    seeds: tuple[int, ...]
    difference: float
    """Variant minus reference, the mean over seeds."""
    low: float
    """Of the bootstrap interval over images."""
    high: float
    image_p: float
    """Over images, Holm-adjusted."""
    training: SeedDifference | None
    """Over seeds; None below the fewest."""
    seed_p: float | None
    """Over seeds, Holm-adjusted."""

    @property
    def images_agree(self) -> bool:
        """Whether other test images would tell these models apart alike."""
        return self.image_p <= ALPHA

    @property
    def seeds_agree(self) -> bool:
        """Whether other trainings would."""
        return self.seed_p is not None and self.seed_p <= ALPHA

    @property
    def holds(self) -> bool:
        """Both: what a report may print in bold."""
        return self.images_agree and self.seeds_agree


def compare(
    counts: RunCounts, reference: str, judged: Sequence[str], resampling: Resampling | None = None
) -> list[Comparison]:
    """All variants that have a seed in common with the reference, by all judged measures.

    Each question has a family of its own for Holm's correction: all comparisons that are made. A judged measure whose
    value does not follow from counts of images is left out.
    """
    resampling = resampling or Resampling()
    if not counts.get(reference):
        return []
    measures = _measures(counts, judged)
    tables = list(dict.fromkeys(measure.table for measure in measures))
    stacked = {name: {seed: _stack(each, tables) for seed, each in runs.items()} for name, runs in counts.items()}
    places = _places(next(iter(counts[reference].values())), tables)
    pairs = _Pairs(stacked, bootstrap_sums(stacked, resampling), places, resampling)
    found = [
        comparison
        for variant in counts
        if variant != reference and counts[variant].keys() & counts[reference].keys()
        for comparison in pairs.compare(variant, reference, measures)
    ]
    return _corrected(found)


@dataclass(frozen=True)
class _Pairs:
    """Comparisons of pairs, before correction."""

    counts: Mapping[str, Mapping[int, Values]]
    """Variant -> seed -> all tables side by side."""
    drawn: Mapping[str, Mapping[int, Values]]
    """Their sums over resampled images."""
    places: Mapping[str, slice]
    """Table -> its columns."""
    resampling: Resampling

    def compare(self, variant: str, reference: str, measures: Sequence[Measure]) -> list[Comparison]:
        """One pair, by all measures."""
        mine, others = self.counts[variant], self.counts[reference]
        seeds = sorted(mine.keys() & others.keys())
        swapped, swapped_others = swapped_sums(mine, others, seeds, self.resampling)
        found = []
        for measure in measures:
            columns = self.places[measure.table]
            differences = [
                float(measure.value(mine[seed][:, columns].sum(0)) - measure.value(others[seed][:, columns].sum(0)))
                for seed in seeds
            ]
            difference = float(np.mean(differences))
            low, high = bootstrap_interval(
                _columns(self.drawn[variant], columns), _columns(self.drawn[reference], columns), measure, seeds
            )
            p = randomization_p(difference, _columns(swapped, columns), _columns(swapped_others, columns), measure)
            training = paired_seeds(differences)
            found.append(
                Comparison(
                    variant,
                    measure.name,
                    tuple(seeds),
                    difference,
                    low,
                    high,
                    p,
                    training,
                    None if training is None else training.p,
                )
            )
        return found


def _measures(counts: RunCounts, judged: Sequence[str]) -> list[Measure]:
    """The judged measures that all runs have counts for."""
    tables = [each.keys() for runs in counts.values() for each in runs.values()]
    known = {each.name: each for each in measures_of([name for name in tables[0] if all(name in t for t in tables)])}
    return [known[name] for name in judged if name in known]


def _places(counts: Counts, tables: Sequence[str]) -> dict[str, slice]:
    places, start = {}, 0
    for table in tables:
        places[table] = slice(start, start + counts[table].shape[1])
        start += counts[table].shape[1]
    return places


def _stack(counts: Counts, tables: Sequence[str]) -> Values:
    return np.hstack([counts[table] for table in tables])


def _columns(sums: Mapping[int, Values], columns: slice) -> dict[int, Values]:
    return {seed: each[:, columns] for seed, each in sums.items()}


def _corrected(found: Sequence[Comparison]) -> list[Comparison]:
    """Holm's correction over the family of each question."""
    over_images = holm([each.image_p for each in found])
    tested = [place for place, each in enumerate(found) if each.seed_p is not None]
    over_seeds: dict[int, float] = dict(zip(tested, holm([float(found[p].seed_p or 0.0) for p in tested]), strict=True))
    return [replace(each, image_p=over_images[place], seed_p=over_seeds.get(place)) for place, each in enumerate(found)]
