"""A data set of the `datasets` package: an object, or a folder that its `save_to_disk` wrote."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captioning.data.faults import Fault
from captioning.data.records import CaptionedImage, CaptionSet, clean
from captioning.data.splits import FRACTIONS, split_by_hash, split_name
from captioning.data.table import COLUMN_NAMES
from captioning.errors import ConfigError, DataError, ImageError

MARKS = ("dataset_dict.json", "state.json")
"""A folder with one of these was written by `save_to_disk`."""
ID_NAMES = ("image_id", "cocoid", "img_id", "filename", "file_name", "id")
"""How data sets call the column of ids; the first that is there and unique."""


@dataclass(frozen=True)
class TableImage:
    """The picture in one row of a data set, read when it is asked for."""

    table: Any
    """A `datasets.Dataset` whose pictures are not decoded."""
    row: int
    column: str

    def __call__(self) -> bytes:
        """The bytes of its file. Raises ImageError."""
        cell = self.table[self.row][self.column]
        if isinstance(cell, dict) and cell.get("bytes"):
            return bytes(cell["bytes"])
        try:
            return Path(cell["path"]).read_bytes()
        except (OSError, TypeError, KeyError) as error:
            raise ImageError(f"row {self.row} of the data set: its picture can't be read ({error})") from error


def read_huggingface(
    source: Any,
    *,
    fractions: Mapping[str, float] = FRACTIONS,
    check_files: bool = True,
    faults: list[Fault] | None = None,
) -> CaptionSet:
    """Read a `datasets.Dataset`, a `DatasetDict` (its keys are the splits) or a folder of `save_to_disk`.

    Pictures come from the column of type `Image`, captions from one of `COLUMN_NAMES`: text, a list of texts, or a
    list of objects with "raw". A single data set is split by its column "split", else by the hash of the ids.
    """
    datasets = _datasets_package()
    tables = datasets.load_from_disk(str(source)) if isinstance(source, str | Path) else source
    if isinstance(tables, datasets.Dataset):
        tables = {"": tables}
    if not isinstance(tables, dict) or not all(isinstance(each, datasets.Dataset) for each in tables.values()):
        raise DataError(f"data set: expected a datasets.Dataset or DatasetDict, got {type(source).__name__}")
    records = [
        record
        for split, table in tables.items()
        for record in _read_table(table, split_name(split), fractions, datasets.Image)
    ]
    return clean(records, check_files=check_files, faults=faults)


def _read_table(table: Any, split: str, fractions: Mapping[str, float], kind: type) -> Iterator[CaptionedImage]:
    pictures = [name for name, feature in table.features.items() if isinstance(feature, kind)]
    named = {column: _find(table.column_names, known) for column, known in COLUMN_NAMES.items()}
    caption, stated = named["caption"], named["split"]
    if len(pictures) != 1 or caption is None:
        raise DataError(
            f"data set {split or table.info.dataset_name or ''}: expected one column of pictures and a caption column "
            f"({', '.join(COLUMN_NAMES['caption'])}), got {', '.join(table.column_names)}"
        )
    plain = table.cast_column(pictures[0], kind(decode=False))
    place = Path(f"dataset-{table._fingerprint}")
    texts = plain.select_columns([name for name in plain.column_names if name != pictures[0]])
    for row, (values, image_id) in enumerate(zip(texts, _ids(texts, split), strict=True)):
        own_split = split or split_name(values[stated] if stated else "") or split_by_hash(image_id, fractions)
        content = TableImage(plain, row, pictures[0])
        yield CaptionedImage(image_id, place / f"{row}", _captions(values[caption], row), own_split, content)


def _ids(texts: Any, split: str) -> list[str]:
    """The rows' ids: of the first id column whose values differ, else their numbers after the split."""
    for name in ID_NAMES:
        if name in texts.column_names:
            values = [str(value) for value in texts[name]]
            if len(set(values)) == len(values):
                return values
    return [f"{split or 'row'}-{row:06d}" for row in range(len(texts))]


def _find(columns: list[str], known: tuple[str, ...]) -> str | None:
    return next((name for name in known if name in columns), None)


def _captions(cell: Any, row: int) -> tuple[str, ...]:
    listed = cell if isinstance(cell, list) else [cell]
    texts = [each.get("raw") if isinstance(each, dict) else each for each in listed]
    for text in texts:
        if text is not None and not isinstance(text, str):
            raise DataError(f"data set, row {row}: expected captions as text, got {str(cell)[:60]}")
    return tuple(text or "" for text in texts)


def _datasets_package() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise ConfigError(
            "format huggingface: the package datasets is not installed; pip install 'captioning[datasets]'"
        ) from error
    return datasets
