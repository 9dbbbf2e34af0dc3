"""One's own captions: CSV, TSV or JSONL with the columns image, caption and, if wanted, split."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from captioning.data.faults import Fault
from captioning.data.files import read_text
from captioning.data.records import CaptionSet, clean
from captioning.data.rows import Row, gather
from captioning.data.splits import FRACTIONS
from captioning.errors import DataError

COLUMN_NAMES = {
    "image": ("image", "image_id", "image_name", "image_path", "file", "filename", "file_name", "path"),
    "caption": ("caption", "captions", "text", "sentence", "sentences", "description"),
    "split": ("split", "set", "partition"),
}
"""Our word for a column -> how files name it, in any case."""


def read_table(
    path: Path,
    *,
    images: Path | None = None,
    fractions: Mapping[str, float] = FRACTIONS,
    check_files: bool = True,
    faults: list[Fault] | None = None,
) -> CaptionSet:
    """Read a table of image, caption[, split]; other named columns are ignored.

    Columns are parted by tabs, commas, or under a header semicolons. A header is known by its names; without one the
    columns come in that order. Fields with commas, quotes or
    line breaks are quoted by the rules of CSV. A line of JSONL may hold a list of captions. Every caption is
    text: null, NA and 007 stay what they are. Pictures without a split get one by the hash of their id.
    """
    text = read_text(path)
    read_rows = _read_json_rows if text.lstrip().startswith("{") else _read_delimited_rows
    records = gather(read_rows(text, path), file=path, images=images, fractions=fractions, faults=faults)
    return clean(records, check_files=check_files, faults=faults)


def _read_delimited_rows(text: str, path: Path) -> Iterator[Row]:
    lines = _split_fields(text, path)
    columns = _find_columns(lines[0][1]) if lines else {}
    if columns:
        width = len(lines.pop(0)[1])
    else:
        width = 3 if lines and len(lines[0][1]) == 3 else 2
        columns = {"image": 0, "caption": 1, "split": 2}
    for line, fields in lines:
        if len(fields) != width:
            raise DataError(
                f"{path}, line {line}: expected {width} fields, got {len(fields)}; put quotes around "
                "captions with commas, or read the file as flickr8k if every line is image,caption"
            )
        split = fields[columns["split"]] if columns.get("split", width) < width else ""
        yield Row(line, fields[columns["image"]], (fields[columns["caption"]],), split)


def _split_fields(text: str, path: Path) -> list[tuple[int, list[str]]]:
    """(line, fields) of each row that is not blank."""
    reader = csv.reader(io.StringIO(text), delimiter=_delimiter(text.lstrip().split("\n", 1)[0]), strict=True)
    rows, line = [], 1
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                rows.append((line, fields))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {line}: expected a row by the rules of CSV, got one with {error}") from None
    return rows


def _delimiter(first: str) -> str:
    """A tab; or the semicolon that spreadsheets of some countries write, where it parts a known header; or a comma."""
    if "\t" in first:
        return "\t"
    return ";" if _find_columns(first.replace('"', "").split(";")) else ","


def _find_columns(header: Sequence[str]) -> dict[str, int]:
    """Our word for each known column -> its place; empty unless there are an image and a caption column."""
    names = [name.strip().lower() for name in header]
    columns = {
        column: names.index(name) for column, known in COLUMN_NAMES.items() for name in reversed(known) if name in names
    }
    return columns if {"image", "caption"} <= columns.keys() else {}


def _read_json_rows(text: str, path: Path) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{where}: expected one JSON object a line, got {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: expected one JSON object a line, got more than can be read ({error})") from None
        yield _read_json_row(values, number, where)


def _read_json_row(values: Any, number: int, where: str) -> Row:
    columns = _find_columns(list(values)) if isinstance(values, dict) else {}
    if not columns:
        raise DataError(f"{where}: expected an object with image and caption, got {str(values)[:60]}")
    by_place = list(values.values())
    image, captions = by_place[columns["image"]], by_place[columns["caption"]]
    split = by_place[columns["split"]] if "split" in columns else None
    listed = captions if isinstance(captions, list) else [captions]
    texts = ["" if caption is None else caption for caption in listed]
    for text in (image, "" if split is None else split, *texts):
        if not isinstance(text, str):
            raise DataError(f"{where}: expected text, got {text!r}; put quotes around it")
    return Row(number, image, tuple(texts), split or "")
