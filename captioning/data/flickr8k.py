"""Flickr8k's and Flickr30k's own files, after Hodosh, Young and Hockenmaier (JAIR 47, 2013)."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from captioning.data.faults import NO_CAPTIONS, NOT_LISTED, Fault
from captioning.data.files import normalize_name, read_lines
from captioning.data.records import CaptionSet, clean
from captioning.data.rows import Row, gather
from captioning.data.splits import FRACTIONS, read_split_lists
from captioning.errors import DataError

TOKEN_LINE = re.compile(r"(?P<image>[^\t]+?)#\d+\t(?P<caption>.*)")
COMMA_LINE = re.compile(r"(?P<image>[^,]+),(?P<caption>.*)")
COMMA_HEADER = "image,caption"


def read_flickr8k(
    path: Path,
    *,
    images: Path | None = None,
    split_lists: Mapping[str, Path] | None = None,
    fractions: Mapping[str, float] = FRACTIONS,
    check_files: bool = True,
    faults: list[Fault] | None = None,
) -> CaptionSet:
    """Read `name#number<TAB>caption` lines, or `image,caption` lines that are split at their first comma.

    `split_lists` maps a split to a file of picture names (train: Flickr_8k.trainImages.txt, ...); pictures in
    none of them are left out and counted. Without lists, `fractions` split by the hash of the id.
    """
    rows = list(_read_rows(path))
    notes: list[str] = []
    if split_lists is not None:
        rows, notes = _take_listed(rows, read_split_lists(split_lists, faults), faults)
    records = gather(rows, file=path, images=images, fractions=fractions, faults=faults)
    return clean(records, notes=notes, check_files=check_files, faults=faults)


def _read_rows(path: Path) -> Iterator[Row]:
    lines = [(number, line) for number, line in enumerate(read_lines(path), start=1) if line.strip()]
    if lines and lines[0][1].replace(" ", "").lower() == COMMA_HEADER:
        lines = lines[1:]
    pattern = TOKEN_LINE if lines and TOKEN_LINE.fullmatch(lines[0][1]) else COMMA_LINE
    expected = "name#number<TAB>caption" if pattern is TOKEN_LINE else "image,caption"
    for number, line in lines:
        match = pattern.fullmatch(line)
        if match is None:
            raise DataError(f"{path}, line {number}: expected {expected}, got {line[:60]!r}")
        yield Row(number, match["image"], (match["caption"],))


def _take_listed(rows: list[Row], splits: Mapping[str, str], faults: list[Fault] | None) -> tuple[list[Row], list[str]]:
    """The rows whose picture is listed, with its split, and notes on what the two files don't share."""
    named = {normalize_name(row.image) for row in rows}
    listed = [row._replace(split=splits.get(normalize_name(row.image), "")) for row in rows]
    unlisted, uncaptioned = sorted(named - splits.keys()), sorted(splits.keys() - named)
    notes = []
    if unlisted:
        notes.append(f"{len(unlisted)} images in no split list left out")
    if uncaptioned:
        notes.append(f"{len(uncaptioned)} images of the split lists without captions left out")
    if faults is not None:
        faults += [Fault(NOT_LISTED, name, "has captions, but no list names it") for name in unlisted]
        faults += [Fault(NO_CAPTIONS, name, f"in the list of {splits[name]}") for name in uncaptioned]
    return [row for row in listed if row.split], notes
