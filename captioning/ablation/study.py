"""A study as its file says it: a base config, named axes, seeds, exclusions, a reference; in several sizes.

base: ../drawn_soft.yaml            # relative to the study's file
settings: {trainer.max_epochs: 7}   # for all variants, on top of the base
axes:
  model.attention.score: [additive, scaled_dot]            # values of one setting
  looking: {soft: {}, hard: {objective.name: hard, ...}}   # or named bundles of settings
extra: {mean_pool: {model.decoder.name: mean_pool}}        # variants beside the grid
exclude: [{model.attention.score: scaled_dot, looking: hard}]
seeds: [1, 2, 3, 4, 5]
reference: additive-soft
sizes: {quick: {seeds: [1], ...}, full: {base: ../flickr8k_soft.yaml, ...}}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from captioning.errors import ConfigError

Settings = Mapping[str, Any]
"""Dotted name of a setting -> value."""

SPLITS = ("val", "test")


@dataclass(frozen=True)
class Study:
    """A study of one size."""

    name: str
    """The file's name, and the size where it has sizes."""
    base: Path
    """The config that all variants start from."""
    reference: str
    """The variant that every other one is compared with."""
    judged: tuple[str, ...]
    """The measures that claims are made about, such as exact or CIDEr-D; the others are only told."""
    question: str = ""
    """What the study asks, in a sentence."""
    split: str = "val"
    """The images that variants are compared on."""
    settings: Settings = field(default_factory=dict)
    """For all variants, on top of the base."""
    axes: Mapping[str, Mapping[str, Settings]] = field(default_factory=dict)
    """Axis -> label -> settings; the grid has every combination."""
    extra: Mapping[str, Settings] = field(default_factory=dict)
    """Variants beside the grid, such as controls."""
    exclude: tuple[Mapping[str, Any], ...] = ()
    """Combinations that are left out: axis -> label, or a list of labels."""
    only: tuple[str, ...] = ()
    """Names of the variants that this size has; none: all."""
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    """Each variant is trained once with each."""

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise ConfigError(f"study {self.name}: split: expected val or test, got {self.split!r}")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(f"study {self.name}: seeds: expected one or more different numbers, got {self.seeds}")
        if not self.axes and not self.extra:
            raise ConfigError(f"study {self.name}: expected axes or extra variants to compare, got neither")
        if not self.judged:
            raise ConfigError(f"study {self.name}: judged: expected one or more measures, such as [CIDEr-D], got none")


def read_study(path: Path, size: str | None = None) -> Study:
    """The study in a YAML file, in the given size; without one the first that the file lists.

    A size replaces the file's keys, but for `settings`, which it adds to. Raises ConfigError.
    """
    content = _read(path)
    sizes = content.pop("sizes", None) or {}
    name = path.stem
    if sizes or size is not None:
        size = size or next(iter(sizes))
        content, name = _sized(path, content, sizes, size), f"{name}-{size}"
    _check_keys(path, content)
    return _study(path, name, content)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"study {path}: can't be read as YAML ({' '.join(str(error).split())})") from error
    if not isinstance(content, dict):
        raise ConfigError(f"study {path}: expected keys such as base, axes and seeds, got a {type(content).__name__}")
    return content


def _sized(path: Path, content: Mapping[str, Any], sizes: Mapping[str, Any], size: str) -> dict[str, Any]:
    if size not in sizes:
        raise ConfigError(f"study {path}: --size {size}: expected one of {', '.join(sizes) or 'none: it has no sizes'}")
    changes = dict(sizes[size] or {})
    settings = {**(content.get("settings") or {}), **(changes.pop("settings", None) or {})}
    return {**content, **changes, "settings": settings}


def _check_keys(path: Path, content: Mapping[str, Any]) -> None:
    known = [each.name for each in fields(Study) if each.name != "name"]
    for key in content:
        if key not in known:
            near = get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}, sizes"
            raise ConfigError(f"study {path}: there is no key {key!r}; {hint}")
    for key in ("base", "reference", "judged"):
        if key not in content:
            raise ConfigError(f"study {path}: expected the key {key}, got none")


def _study(path: Path, name: str, content: Mapping[str, Any]) -> Study:
    axes = _mapping(path, "axes", content)
    return Study(
        name=name,
        base=(path.parent / str(content["base"])).resolve(),
        reference=str(content["reference"]),
        judged=tuple(map(str, _listed(content["judged"]))),
        question=" ".join(str(content.get("question", "")).split()),
        split=str(content.get("split", "val")),
        settings=_mapping(path, "settings", content),
        axes={axis: _labelled(path, axis, choices) for axis, choices in axes.items()},
        extra={key: value or {} for key, value in _mapping(path, "extra", content).items()},
        exclude=tuple(content.get("exclude") or ()),
        only=tuple(map(str, content.get("only") or ())),
        seeds=_seeds(path, content.get("seeds", Study.seeds)),
    )


def _mapping(path: Path, key: str, content: Mapping[str, Any]) -> dict[str, Any]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise ConfigError(f"study {path}: {key}: expected names with values, got {value!r}")
    return value


def _seeds(path: Path, seeds: Any) -> tuple[int, ...]:
    listed = _listed(seeds)
    if not all(type(seed) is int for seed in listed):
        raise ConfigError(f"study {path}: seeds: expected whole numbers, got {seeds!r}")
    return tuple(listed)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _labelled(path: Path, axis: str, choices: Any) -> dict[str, Settings]:
    """Label -> settings, of named bundles or of the values of the setting that gives the axis its name."""
    if isinstance(choices, dict):
        return {str(label): settings or {} for label, settings in choices.items()}
    if isinstance(choices, list) and choices:
        return {label_of(axis, value): {axis: value} for value in choices}
    raise ConfigError(f"study {path}: axis {axis}: expected a list of values or named bundles, got {choices!r}")


def label_of(setting: str, value: Any) -> str:
    """A value's part of a variant's name: a word speaks for itself, a number says what it is of."""
    return value if isinstance(value, str) else f"{setting.rsplit('.', 1)[-1]}_{value}".lower()
