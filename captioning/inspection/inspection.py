"""All measures of one captioner's maps; and as JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from math import isfinite
from typing import Any

import numpy as np

from captioning.captioner.pictures import seeded
from captioning.inspection.attribution import ATTRIBUTIONS
from captioning.inspection.averages import Average
from captioning.inspection.locating import Known, Located, locate
from captioning.inspection.removal import Removal, remove_cells
from captioning.inspection.replacement import Replacement, replace_maps
from captioning.inspection.sharpness import Sharpness, describe_maps
from captioning.inspection.subject import Progress, Subject, read_words


@dataclass(frozen=True)
class Inspection:
    """What is known of a captioner's maps as evidence."""

    facts: Mapping[str, str]
    """What was inspected, on what, how: name -> in words."""
    images: int
    grid: tuple[int, int]
    """Rows and columns."""
    sharpness: Sharpness
    replacement: Replacement
    removal: Removal
    located: Located | None
    """None where no true places are known."""

    @property
    def cells(self) -> int:
        """R."""
        return self.grid[0] * self.grid[1]


def inspect(
    subject: Subject,
    facts: Mapping[str, str],
    *,
    known: Known | None = None,
    words: int = 300,
    attributions: Sequence[str] = ATTRIBUTIONS,
    seed: int = 1,
    report: Callable[[str], Progress] | None = None,
) -> Inspection:
    """Measure everything. `words`: of the captioner's own, for removal. `seed`: of all that is drawn at random."""

    def told(task: str) -> Progress | None:
        return None if report is None else report(task)

    with seeded(seed, subject.captioner.device):
        read = read_words(subject, told("read captions"))
        sharpness = describe_maps(read)
        replacement = replace_maps(subject, read, seed=seed, progress=told("replace maps"))
        removal = remove_cells(
            subject, words=words, attributions=attributions, seed=seed, progress=told("remove cells")
        )
        located = None if known is None else locate(subject, known, sharpness.mean_map, told("find places"))
    return Inspection(dict(facts), subject.images, subject.grid, sharpness, replacement, removal, located)


def as_plain(value: Any) -> Any:
    """The same in the types of JSON; an average by its names, and what is not a number as null."""
    if isinstance(value, Average):
        return {name: as_plain(each) for name, each in value._asdict().items()}
    if is_dataclass(value):
        return {each.name: as_plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: as_plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return as_plain(value.tolist())
    if isinstance(value, list | tuple):
        return [as_plain(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return value
