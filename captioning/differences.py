"""In which settings two things differ: for messages that refuse one of them."""

from collections.abc import Mapping
from typing import Any


def differences(stored: Mapping[str, Any], asked: Mapping[str, Any], *, where: str) -> list[str]:
    """Each setting in which nested dicts differ, by its dotted name, with both values; `where` the first one is."""
    mine, others = _flat(stored), _flat(asked)
    return [
        f"{name}: {mine.get(name)!r} in the {where}, {others.get(name)!r} asked for"
        for name in sorted(mine.keys() | others.keys())
        if mine.get(name) != others.get(name)
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat
