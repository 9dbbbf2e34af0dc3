"""Which images train a model, which choose it, which test it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from captioning.data.faults import TWO_SPLITS, Fault
from captioning.data.files import normalize_name, read_lines
from captioning.errors import DataError

SPLITS = ("train", "val", "test")
UNCAPTIONED = "uncaptioned"
FRACTIONS: Mapping[str, float] = {"train": 0.8, "val": 0.1, "test": 0.1}

_SYNONYMS = {
    "training": "train",
    "dev": "val",
    "devel": "val",
    "valid": "val",
    "validation": "val",
    "testing": "test",
}


def split_name(written: str) -> str:
    """The project's word for a split: dev, valid and validation are val; an unknown word stays as it is."""
    name = written.strip().lower()
    return _SYNONYMS.get(name, name)


def split_by_hash(image_id: str, fractions: Mapping[str, float] = FRACTIONS) -> str:
    """A split drawn from the SHA-256 of the id alone: it depends on no machine and on no other image."""
    if abs(sum(fractions.values()) - 1) > 1e-6 or min(fractions.values()) < 0:
        raise DataError(f"split fractions: expected parts of a whole that sum to 1, got {dict(fractions)}")
    place = int.from_bytes(hashlib.sha256(image_id.encode()).digest()[:8], "big") / 2**64
    bound = 0.0
    for name, fraction in fractions.items():
        bound += fraction
        if place < bound:
            return split_name(name)
    return split_name(name)


def read_split_lists(lists: Mapping[str, Path], faults: list[Fault] | None = None) -> dict[str, str]:
    """Image name -> split, from one file of names a split, a name a line.

    A name in two lists is a DataError, or with `faults` an entry there, and of the first.
    """
    splits: dict[str, str] = {}
    for written, path in lists.items():
        split = split_name(written)
        for number, line in enumerate(read_lines(path), start=1):
            name = normalize_name(line)
            if not name:
                continue
            if splits.setdefault(name, split) != split:
                told = f"{path}, line {number}: {name} is in {split}, and in {splits[name]} too"
                if faults is None:
                    raise DataError(told)
                faults.append(Fault(TWO_SPLITS, name, told))
    return splits
