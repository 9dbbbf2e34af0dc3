"""Captioned images as every reader gives them, and the one step that leaves out what can't be used."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from captioning.data.faults import (
    DUPLICATE_CAPTION,
    MISSING,
    NO_CAPTIONS,
    NO_WORDS,
    UNKNOWN_SPLIT,
    Fault,
)
from captioning.data.files import is_file
from captioning.data.images import load_image, read_bytes
from captioning.data.splits import SPLITS, UNCAPTIONED
from captioning.errors import DataError
from captioning.text.tokenize import tokenize
from captioning.text.tokenizers import SubwordTokenizer, make_tokenizer
from captioning.text.vocabulary import SPECIAL_WORDS, Vocabulary

ALL = "all"
"""Stands for all splits where one is asked for."""
_LINE_ENDS = re.compile(r"\s*[\r\n]\s*")


@dataclass(frozen=True)
class CaptionedImage:
    """A picture and what people said of it."""

    image_id: str
    """Unique in the set, always text ("007" stays "007")."""
    path: Path
    """The picture's file; a mere name where `content` reads it from elsewhere."""
    captions: tuple[str, ...]
    """As written, in Unicode's composed form (NFC), a line end inside being a blank."""
    split: str
    """train, val or test; `UNCAPTIONED` for a picture without captions."""
    content: Callable[[], bytes] | None = None
    """Reads the picture's bytes where it is no file of its own (in a shard, in a table); None: it lies at `path`."""

    def read(self) -> bytes:
        """The picture's bytes. Raises ImageError."""
        return read_bytes(self.path) if self.content is None else self.content()

    def load(self) -> Image.Image:
        """The picture, upright RGB. Raises ImageError, which names it."""
        return load_image(self.path if self.content is None else self.content(), name=str(self.path))


class Count(NamedTuple):
    """The size of a split."""

    images: int
    captions: int


@dataclass(frozen=True)
class CaptionSet:
    """Captioned images with unique ids, in the order of their file."""

    records: tuple[CaptionedImage, ...]
    """The images."""
    notes: tuple[str, ...] = ()
    """One line for each kind of thing that was left out or looked odd, with its count."""

    def __len__(self) -> int:
        return len(self.records)

    def split(self, name: str) -> "CaptionSet":
        """The images of one split, or with `ALL` of train, val and test; DataError where there is none."""
        wanted = SPLITS if name == ALL else (name,)
        records = tuple(record for record in self.records if record.split in wanted)
        if not records:
            found = ", ".join(self.counts()) or "no image at all"
            raise DataError(f"split {name!r}: expected at least one image, got none; there is {found}")
        return CaptionSet(records, self.notes)

    @property
    def captions(self) -> tuple[str, ...]:
        """All captions, image by image."""
        return tuple(caption for record in self.records for caption in record.captions)

    @property
    def references(self) -> dict[str, list[str]]:
        """image_id -> its captions, as the metrics take them."""
        return {record.image_id: list(record.captions) for record in self.records}

    def counts(self) -> dict[str, Count]:
        """Images and captions of each split that is there, train first."""
        images = Counter(record.split for record in self.records)
        captions: Counter[str] = Counter()
        for record in self.records:
            captions[record.split] += len(record.captions)
        order = [*SPLITS, *(split for split in images if split not in SPLITS)]
        return {split: Count(images[split], captions[split]) for split in order if split in images}


def clean(
    images: Iterable[CaptionedImage],
    *,
    notes: Sequence[str] = (),
    check_files: bool = True,
    faults: list[Fault] | None = None,
) -> CaptionSet:
    """What can be used of `images`, with a note for each kind of thing that can't.

    Left out: captions without a word, images of an unknown split, pictures that aren't there (unless
    `check_files` is off). An image without captions goes to the split `UNCAPTIONED`: neither trained on nor
    scored, good for prediction. A caption that an image has twice stays twice (annotators agree at times) and
    is counted. With `faults`, each of these things becomes an entry there too.

    Raises DataError for an id that comes twice and for a set in which nothing is left.
    """
    found = [replace(image, captions=tuple(_normalize(caption) for caption in image.captions)) for image in images]
    _refuse_repeated_ids(found)
    known = [image for image in found if image.split in SPLITS]
    present = [image for image in known if not check_files or image.content is not None or is_file(image.path)]
    records = tuple(_with_words(image) for image in present)
    if faults is not None:
        faults += [*_faults_of_pictures(found, present), *_faults_of_captions(present, records)]
    all_notes = (
        *notes,
        *_note_unknown_splits(found),
        *_note_missing_files(known, present),
        *_note_captions(present, records),
    )
    if not records:
        raise DataError("captions: expected at least one image, none is left: " + "; ".join(all_notes or ("no rows",)))
    return CaptionSet(records, all_notes)


def build_vocabulary(
    captions: CaptionSet, *, minimum_count: int = 5, maximum_size: int | None = None, tokenizer: str = "word"
) -> Vocabulary:
    """The vocabulary of the training captions alone, so that no word of another split leaks into it.

    tokenizer: by its name (`text.tokenizers`). `subword` learns its pieces here, at most `maximum_size` with the
    special words; a piece is a pair that occurs `minimum_count` times, and every letter is kept.
    """
    train = captions.split("train").captions
    pieces = None if maximum_size is None else maximum_size - len(SPECIAL_WORDS)
    made = make_tokenizer(tokenizer, train, pieces=pieces, minimum_count=minimum_count)
    if isinstance(made, SubwordTokenizer):
        return Vocabulary([*SPECIAL_WORDS, *made.pieces], made)
    words = (made.tokenize(caption) for caption in train)
    return Vocabulary.build(words, minimum_count=minimum_count, maximum_size=maximum_size, tokenizer=made)


def _normalize(caption: str) -> str:
    """In composed form and on one line."""
    return _LINE_ENDS.sub(" ", unicodedata.normalize("NFC", caption).strip())


def _with_words(image: CaptionedImage) -> CaptionedImage:
    captions = tuple(caption for caption in image.captions if tokenize(caption))
    return replace(image, captions=captions, split=image.split if captions else UNCAPTIONED)


def _refuse_repeated_ids(images: Sequence[CaptionedImage]) -> None:
    [(image_id, times)] = Counter(image.image_id for image in images).most_common(1) or [("", 0)]
    if times > 1:
        raise DataError(f"image id {image_id!r}: expected once, got {times} images with it; ids must be unique")


def _note_unknown_splits(images: Sequence[CaptionedImage]) -> list[str]:
    unknown = Counter(image.split for image in images if image.split not in SPLITS)
    expected = ", ".join(SPLITS)
    return [f"split {name!r} is none of {expected}: {count} images left out" for name, count in unknown.items()]


def _note_missing_files(expected: Sequence[CaptionedImage], present: Sequence[CaptionedImage]) -> list[str]:
    there = {image.image_id for image in present}
    missing = [str(image.path) for image in expected if image.image_id not in there]
    return [f"{len(missing)} pictures not found: {_some(missing)}"] if missing else []


def _note_captions(before: Sequence[CaptionedImage], after: Sequence[CaptionedImage]) -> list[str]:
    wordless = sum(len(old.captions) - len(new.captions) for old, new in zip(before, after, strict=True))
    repeated = sum(len(image.captions) - len(set(image.captions)) for image in after)
    uncaptioned = [image.image_id for image in after if not image.captions]
    notes = []
    if wordless:
        notes.append(f"{wordless} captions without a word left out")
    if repeated:
        notes.append(f"{repeated} captions are duplicates within their image; they are kept")
    if uncaptioned:
        notes.append(f"{len(uncaptioned)} images without captions, good for prediction only: {_some(uncaptioned)}")
    return notes


def _faults_of_pictures(found: Sequence[CaptionedImage], present: Sequence[CaptionedImage]) -> Iterator[Fault]:
    there = {image.image_id for image in present}
    for image in found:
        if image.split not in SPLITS:
            yield Fault(UNKNOWN_SPLIT, image.image_id, f"{image.split!r} is none of {', '.join(SPLITS)}")
        elif image.image_id not in there:
            yield Fault(MISSING, image.image_id, f"{image.path}: no such file")


def _faults_of_captions(before: Sequence[CaptionedImage], after: Sequence[CaptionedImage]) -> Iterator[Fault]:
    for old, new in zip(before, after, strict=True):
        kept = set(new.captions)
        yield from (Fault(NO_WORDS, old.image_id, repr(caption)) for caption in old.captions if caption not in kept)
        if not new.captions:
            yield Fault(NO_CAPTIONS, old.image_id, str(old.path))
        for caption, times in Counter(new.captions).items():
            if times > 1:
                yield Fault(DUPLICATE_CAPTION, new.image_id, f"{times} times: {caption}")


def _some(names: Sequence[str], *, most: int = 3) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
