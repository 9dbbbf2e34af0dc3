"""A config in plain types, its hash, and the way back."""

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from hashlib import sha256
from typing import Any, TypeVar, get_type_hints

from captioning.config import TrainingConfig

Settings = TypeVar("Settings")

_WITHOUT_EFFECT = (
    ("name",),
    ("output",),
    ("overwrite",),
    ("ckpt_path",),
    ("data", "feature_cache"),
    ("trainer", "progress_bar"),
)
"""Where things lie and what is shown: no result follows from these."""


def plain(config: TrainingConfig) -> dict[str, Any]:
    """All settings as JSON gives them back."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    return values


def identity(config: TrainingConfig, split: str) -> str:
    """Sha256 of every setting that a result follows from, and of the split that is scored."""
    values = plain(config)
    for path in _WITHOUT_EFFECT:
        part = values
        for step in path[:-1]:
            part = part[step]
        part.pop(path[-1])
    return sha256(json.dumps({"split": split, "config": values}, sort_keys=True).encode()).hexdigest()


def setting_names(kind: type = TrainingConfig, prefix: str = "") -> list[str]:
    """The dotted names of all settings."""
    names = []
    for name, hint in get_type_hints(kind).items():
        nested = is_dataclass(hint) and isinstance(hint, type)
        names += setting_names(hint, f"{prefix}{name}.") if nested else [f"{prefix}{name}"]
    return names


def settings_from(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    """The inverse of `plain`, for a dataclass of settings."""
    hints = get_type_hints(kind)
    parts = {
        name: settings_from(hints[name], value) if is_dataclass(hints[name]) else value
        for name, value in values.items()
    }
    return kind(**parts)
