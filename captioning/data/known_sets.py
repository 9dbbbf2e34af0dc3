"""How large the public sets are, so that a set with a part missing is noticed before it is trained on."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from captioning.data.records import CaptionSet, Count


@dataclass(frozen=True)
class KnownSet:
    """A public set with its usual splits."""

    name: str
    """As papers call it."""
    picture: str
    """How its pictures are called, as a regular expression."""
    splits: Mapping[str, Count]
    """Published images and captions of each split."""


_COCO_2014, _COCO_2017 = r"COCO_(train|val)2014_\d{12}\.jpg", r"\d{12}\.jpg"
KNOWN_SETS = (
    KnownSet(
        "Flickr8k",
        r"\d+_[0-9a-f]{10}\.jpg",
        {"train": Count(6000, 30000), "val": Count(1000, 5000), "test": Count(1000, 5000)},
    ),
    KnownSet(
        "Flickr30k, Karpathy's splits",
        r"\d{5,11}\.jpg",
        {"train": Count(29000, 145000), "val": Count(1014, 5070), "test": Count(1000, 5000)},
    ),
    KnownSet(
        "COCO, Karpathy's splits",
        _COCO_2014,
        {"train": Count(113287, 566747), "val": Count(5000, 25010), "test": Count(5000, 25010)},
    ),
    KnownSet("COCO 2014", _COCO_2014, {"train": Count(82783, 414113), "val": Count(40504, 202654)}),
    KnownSet("COCO 2017", _COCO_2017, {"train": Count(118287, 591753), "val": Count(5000, 25014)}),
)
"""Karpathy's COCO trains on train2014 and restval: without the 30,504 images of restval, 82,783 are left."""

_SAMPLE = 200
"""Pictures whose names are looked at."""


def recognize_set(captions: CaptionSet) -> KnownSet | None:
    """The public set that these pictures are of, by their names; of two with such names, the one of nearer sizes."""
    names = [PurePath(record.path).name for record in captions.records[:: max(1, len(captions) // _SAMPLE)]]
    likely = [known for known in KNOWN_SETS if all(re.fullmatch(known.picture, name) for name in names)]
    return min(likely, key=lambda known: _distance(captions.counts(), known.splits), default=None)


def compare_sizes(captions: CaptionSet) -> Sequence[str]:
    """One line for each split of a public set that is smaller or larger here than published; nothing otherwise."""
    known = recognize_set(captions)
    if known is None:
        return []
    found = captions.counts()
    lines = []
    for split, published in known.splits.items():
        here = found.get(split, Count(0, 0))
        if here != published:
            lines.append(
                f"{known.name}: {split} has {here.images} images and {here.captions} captions here, "
                f"{published.images} and {published.captions} as published{_reason(here, published)}"
            )
    return lines


def _distance(found: Mapping[str, Count], published: Mapping[str, Count]) -> int:
    """How many images must come or go for the splits to be the published ones."""
    nothing = Count(0, 0)
    splits = found.keys() | published.keys()
    return sum(abs(found.get(split, nothing).images - published.get(split, nothing).images) for split in splits)


def _reason(here: Count, published: Count) -> str:
    restval = published.images - here.images == 30504
    return " (exactly restval's 30504 images are missing)" if restval else ""
