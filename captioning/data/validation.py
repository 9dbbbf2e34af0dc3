"""A whole data set looked at once: what would be lost, what is odd, and how its splits compare."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from captioning.data.faults import (
    BROKEN,
    DUPLICATE_PICTURE,
    LONG_CAPTION,
    LOST,
    MISSING,
    ODD_PICTURE,
    TWO_SPLITS,
    Fault,
)
from captioning.data.files import is_file
from captioning.data.inspection import PictureFacts, inspect_pictures
from captioning.data.known_sets import compare_sizes, recognize_set
from captioning.data.records import CaptionedImage, CaptionSet
from captioning.data.splits import SPLITS
from captioning.text.tokenize import tokenize

SMALLEST_SIDE, LONGEST_SHAPE = 32, 8
"""A picture with a side below this many pixels, or with one side this many times the other, is odd."""


@dataclass(frozen=True)
class SplitFacts:
    """What one split is made of."""

    images: int
    captions: int
    captions_per_image: dict[int, int]
    """Captions -> images that have so many."""
    words: tuple[int, float, int]
    """Of a caption: fewest, mean, most."""
    known: float
    """The part of its words that the training captions hold often enough to be in a vocabulary."""


@dataclass(frozen=True)
class Report:
    """What `captioning validate` tells."""

    captions: CaptionSet
    """What could be read, broken pictures included."""
    faults: tuple[Fault, ...]
    """All that is wrong, in the order of the file for each kind."""
    splits: dict[str, SplitFacts]
    public_set: str | None
    """The public set that its pictures are of, by their names."""
    sizes: tuple[str, ...]
    """Splits of a public set that have another size than published."""
    pictures: tuple[PictureFacts, ...]
    """What each picture is; empty where they were not looked at."""

    @property
    def lost(self) -> int:
        """How many things would neither train nor be scored."""
        return sum(fault.kind in LOST for fault in self.faults)

    def by_kind(self) -> dict[str, list[Fault]]:
        """The faults, the kinds that lose something first."""
        kinds: dict[str, list[Fault]] = {kind: [] for kind in LOST}
        for fault in self.faults:
            kinds.setdefault(fault.kind, []).append(fault)
        return {kind: faults for kind, faults in kinds.items() if faults}

    def cleaned(self) -> CaptionSet:
        """What is left without broken, missing and duplicate pictures, and with each caption of an image once.

        Of equal pictures the one in test stays, else that in val: so that what was measured stays the same.
        """
        bad = {fault.image for fault in self.faults if fault.kind in (BROKEN, MISSING)}
        bad |= {facts.image.image_id for group in _same_content(self.pictures) for facts in group[1:]}
        records = [
            replace(record, captions=tuple(dict.fromkeys(record.captions)))
            for record in self.captions.records
            if record.image_id not in bad and record.captions
        ]
        return CaptionSet(tuple(records))


def validate(
    captions: CaptionSet,
    faults: Iterable[Fault],
    *,
    look_at_pictures: bool = True,
    longest: int = 50,
    minimum_count: int = 5,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Look at captions that were read with `check_files=False` and `faults`, and at every picture once.

    longest: captions with more words are overlong. minimum_count: how often training captions must hold a word for it
    to be known.
    """
    pictures = tuple(inspect_pictures(captions.records, progress=progress)) if look_at_pictures else ()
    all_faults = (
        *faults,
        *(fault for facts in pictures for fault in _faults_of_picture(facts)),
        *_faults_of_duplicates(pictures),
        *_long_captions(captions, longest),
    )
    known = recognize_set(captions)
    return Report(
        captions,
        all_faults,
        _split_facts(captions, minimum_count),
        None if known is None else known.name,
        tuple(compare_sizes(captions)),
        pictures,
    )


def _faults_of_picture(facts: PictureFacts) -> Iterator[Fault]:
    name, (width, height) = facts.image.image_id, facts.size
    if facts.fault is not None:
        there = facts.image.content is not None or is_file(facts.image.path)
        yield Fault(BROKEN if there else MISSING, name, facts.fault)
    elif facts.one_color:
        yield Fault(ODD_PICTURE, name, f"{facts.image.path}: one colour throughout, {width} x {height}")
    elif min(facts.size) < SMALLEST_SIDE or max(facts.size) > LONGEST_SHAPE * min(facts.size):
        yield Fault(ODD_PICTURE, name, f"{facts.image.path}: {width} x {height} pixels")


def _same_content(pictures: Sequence[PictureFacts]) -> list[list[PictureFacts]]:
    """Groups of pictures whose files are equal byte for byte, the one to keep first."""
    groups: defaultdict[str, list[PictureFacts]] = defaultdict(list)
    for facts in pictures:
        if facts.fault is None:
            groups[facts.sha256].append(facts)
    order = {split: -place for place, split in enumerate(SPLITS)}
    return [
        sorted(group, key=lambda facts: order.get(facts.image.split, 1)) for group in groups.values() if len(group) > 1
    ]


def _faults_of_duplicates(pictures: Sequence[PictureFacts]) -> Iterator[Fault]:
    for kept, *others in _same_content(pictures):
        for other in others:
            told = f"the same picture as {kept.image.image_id}"
            yield Fault(DUPLICATE_PICTURE, other.image.image_id, told)
            if other.image.split != kept.image.split:
                yield Fault(TWO_SPLITS, other.image.image_id, f"{other.image.split}; {told}, {kept.image.split}")


def _long_captions(captions: CaptionSet, longest: int) -> Iterator[Fault]:
    for record in captions.records:
        for caption in record.captions:
            words = len(tokenize(caption))
            if words > longest:
                yield Fault(LONG_CAPTION, record.image_id, f"{words} words: {caption[:60]} ...")


def _split_facts(captions: CaptionSet, minimum_count: int) -> dict[str, SplitFacts]:
    by_split: defaultdict[str, list[CaptionedImage]] = defaultdict(list)
    for record in captions.records:
        by_split[record.split].append(record)
    counts = Counter(word for record in by_split["train"] for caption in record.captions for word in tokenize(caption))
    known = {word for word, count in counts.items() if count >= minimum_count}
    return {split: _facts(by_split[split], known) for split in captions.counts()}


def _facts(records: Sequence[CaptionedImage], known: set[str]) -> SplitFacts:
    lengths, words, familiar = [], 0, 0
    for record in records:
        for caption in record.captions:
            cut = tokenize(caption)
            lengths.append(len(cut))
            words += len(cut)
            familiar += sum(word in known for word in cut)
    per_image: Mapping[int, int] = Counter(len(record.captions) for record in records)
    mean = words / len(lengths) if lengths else 0.0
    return SplitFacts(
        images=len(records),
        captions=len(lengths),
        captions_per_image=dict(sorted(per_image.items())),
        words=(min(lengths, default=0), mean, max(lengths, default=0)),
        known=familiar / words if words else 0.0,
    )
