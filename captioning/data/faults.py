"""What is wrong in a caption file or with its pictures, one entry a thing: what `captioning validate` lists."""

from typing import NamedTuple

MISSING, BROKEN, NO_WORDS, NO_CAPTIONS = "missing picture", "broken picture", "caption without a word", "no captions"
UNKNOWN_SPLIT = "unknown split"
LOST = (MISSING, BROKEN, NO_WORDS, NO_CAPTIONS, UNKNOWN_SPLIT)
"""What neither trains nor is scored: it would be lost."""
TWO_SPLITS, DUPLICATE_PICTURE, ODD_PICTURE = "in more than one split", "duplicate picture", "odd picture"
DUPLICATE_CAPTION, LONG_CAPTION, NOT_LISTED = "duplicate caption", "overlong caption", "in no split list"
ODD = (TWO_SPLITS, DUPLICATE_PICTURE, ODD_PICTURE, DUPLICATE_CAPTION, LONG_CAPTION, NOT_LISTED)
"""What may spoil a result, or was left out on purpose."""


class Fault(NamedTuple):
    """One thing that is wrong."""

    kind: str
    """One of `LOST` or `ODD`."""
    image: str
    """The picture's id, or its name where it has none."""
    detail: str
    """What exactly, in words."""
