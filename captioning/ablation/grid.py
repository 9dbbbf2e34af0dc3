"""From a study to its runs: every combination of the axes but the excluded ones, once with each seed."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import product
from typing import Any

from captioning.ablation.identity import identity, setting_names
from captioning.ablation.study import Settings, Study, label_of
from captioning.config import TrainingConfig
from captioning.errors import ConfigError
from captioning.metrics.suite import METRICS

Resolve = Callable[[Sequence[str]], TrainingConfig]
"""From the flags of `captioning train` to the whole config. Raises ConfigError."""

ON_DRAWN_PICTURES = ("exact", "pointing")
"""Measures that need every right answer to be known."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.+=]+")


@dataclass(frozen=True)
class Variant:
    """A row of the table."""

    name: str
    """Its labels, joined: the name of its runs."""
    settings: Settings
    """What sets it apart from the base and the study's own settings."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Axis -> label; none for one beside the grid."""


@dataclass(frozen=True)
class Run:
    """One training of one variant."""

    variant: Variant
    seed: int
    split: str
    """The images it is scored on."""
    config: TrainingConfig
    """All of its settings."""

    @cached_property
    def identity(self) -> str:
        """A hash of all that its result follows from: another config is another run."""
        return identity(self.config, self.split)

    @property
    def name(self) -> str:
        """The name of its folder: readable, and one run's only."""
        return f"{self.variant.name}-s{self.seed}-{self.identity[:8]}"


@dataclass(frozen=True)
class Plan:
    """A study and all of its runs."""

    study: Study
    variants: tuple[Variant, ...]
    """The reference first."""
    runs: tuple[Run, ...]
    """Seed by seed, so that a study that is stopped early has whole rows to compare."""


def make_plan(study: Study, resolve: Resolve, overrides: Sequence[str] = ()) -> Plan:
    """The runs of a study; `overrides` are flags of `captioning train` that change all of them.

    Raises ConfigError, which names the variant.
    """
    chosen = _chosen(study, list(variants_of(study)))
    runs = [
        Run(variant, seed, study.split, replace(config, seed=seed))
        for variant, config in [(variant, _resolved(study, variant, resolve, overrides)) for variant in chosen]
        for seed in study.seeds
    ]
    _check_different(study, runs)
    _check_judged(study, runs)
    places = {seed: place for place, seed in enumerate(study.seeds)}
    return Plan(study, tuple(chosen), tuple(sorted(runs, key=lambda run: places[run.seed])))


def variants_of(study: Study) -> Iterator[Variant]:
    """The grid without what is excluded, then the variants beside it."""
    _check_exclusions(study)
    for labels in product(*study.axes.values()):
        of_axis = dict(zip(study.axes, labels, strict=True))
        if of_axis and not any(_matches(rule, of_axis) for rule in study.exclude):
            chosen = {key: value for axis, label in of_axis.items() for key, value in study.axes[axis][label].items()}
            yield Variant("-".join(map(_clean, labels)), chosen, of_axis)
    for name, settings in study.extra.items():
        yield Variant(_clean(name), settings)


def _clean(label: str) -> str:
    return _NOT_IN_NAMES.sub("_", label)


def _check_exclusions(study: Study) -> None:
    for rule in study.exclude:
        for axis, wanted in rule.items():
            if axis not in study.axes:
                raise ConfigError(f"study {study.name}: exclude: no axis {axis!r}; there are {', '.join(study.axes)}")
            unknown = [label for label in _labels(axis, wanted) if label not in study.axes[axis]]
            if unknown:
                known = ", ".join(study.axes[axis])
                raise ConfigError(f"study {study.name}: exclude: axis {axis} has no {unknown[0]!r}; it has {known}")


def _matches(rule: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return all(labels[axis] in _labels(axis, wanted) for axis, wanted in rule.items())


def _labels(axis: str, wanted: Any) -> list[str]:
    return [label_of(axis, value) for value in (wanted if isinstance(wanted, list) else [wanted])]


def _chosen(study: Study, variants: list[Variant]) -> list[Variant]:
    """Those of the study's size, the reference first."""
    names = [variant.name for variant in variants]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"study {study.name}: two variants are called {twice}; give their bundles other names")
    for wanted in (*study.only, study.reference):
        if wanted not in names:
            near = get_close_matches(wanted, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise ConfigError(f"study {study.name}: there is no variant {wanted!r}; {hint}")
    if study.only and study.reference not in study.only:
        raise ConfigError(f"study {study.name}: only: expected the reference {study.reference} among the variants")
    kept = [variant for variant in variants if not study.only or variant.name in study.only]
    return sorted(kept, key=lambda variant: variant.name != study.reference)


def _resolved(study: Study, variant: Variant, resolve: Resolve, overrides: Sequence[str]) -> TrainingConfig:
    settings = {**study.settings, **variant.settings}
    _check_names(study, variant, settings)
    flags = [f"--{name}={_as_flag(value)}" for name, value in settings.items()]
    try:
        return resolve(["--config", str(study.base), *flags, *overrides])
    except ConfigError as error:
        raise ConfigError(f"study {study.name}, variant {variant.name}: {error}") from error


def _check_names(study: Study, variant: Variant, settings: Settings) -> None:
    """The parser would take the beginning of a name for the name; a study is to say what it means."""
    known = setting_names()
    for name in settings:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "captioning train --help lists them"
            raise ConfigError(f"study {study.name}, variant {variant.name}: there is no setting {name!r}; {hint}")


def _as_flag(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _check_judged(study: Study, runs: Sequence[Run]) -> None:
    known = list(METRICS)
    if study.split == "test" and all(run.config.data.format == "drawn" for run in runs):
        known += ON_DRAWN_PICTURES
    for name in study.judged:
        if name not in known:
            raise ConfigError(
                f"study {study.name}: judged: there is no measure {name!r} here; known are {', '.join(known)} "
                f"({' and '.join(ON_DRAWN_PICTURES)} on the drawn set's split test)"
            )


def _check_different(study: Study, runs: Sequence[Run]) -> None:
    seen: dict[str, Run] = {}
    for run in runs:
        other = seen.setdefault(run.identity, run)
        if other is not run:
            raise ConfigError(
                f"study {study.name}: {other.variant.name} and {run.variant.name} have the same settings; drop one, "
                "or see that no setting of one hides the other's"
            )
