"""A folder of pictures with their captions in text files beside them: dog.jpg and dog.txt, a caption a line."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from captioning.data.faults import MISSING, Fault
from captioning.data.files import read_lines
from captioning.data.image_files import IMAGE_SUFFIXES
from captioning.data.records import CaptionSet, clean
from captioning.data.rows import Row, gather
from captioning.data.splits import FRACTIONS, SPLITS, split_name
from captioning.errors import DataError

SIDECAR = ".txt"


def read_folder(
    path: Path,
    *,
    images: Path | None = None,
    fractions: Mapping[str, float] = FRACTIONS,
    check_files: bool = True,
    faults: list[Fault] | None = None,
) -> CaptionSet:
    """Read all pictures below `path`, by their suffix; a blank line in a text file is no caption.

    Pictures below a folder train, val (dev, ...) or test are of that split; for others `fractions` split by the hash
    of the id. A picture without a text file has no captions; text files without a picture are counted. The text
    files lie beside the pictures, or in the same folders below `path` where the pictures are in `images`.
    """
    pictures = images or path
    found = sorted(each for each in pictures.rglob("*") if each.suffix.lower() in IMAGE_SUFFIXES and each.is_file())
    if not found:
        raise DataError(f"{pictures}: expected pictures (.jpg, .png, .webp, ...) in it or below, found none")
    rows = list(_rows(found, pictures, path))
    records = gather(rows, file=path, images=pictures, fractions=fractions, faults=faults)
    alone = _texts_alone(path, {each.relative_to(pictures).with_suffix("") for each in found})
    if faults is not None:
        faults += [Fault(MISSING, name, f"{path / name}: a text file without a picture beside it") for name in alone]
    notes = [f"{len(alone)} text files without a picture: {', '.join(alone[:3])}"] if alone else []
    return clean(records, notes=notes, check_files=check_files, faults=faults)


def _rows(found: list[Path], pictures: Path, texts: Path) -> Iterator[Row]:
    for picture in found:
        name = picture.relative_to(pictures)
        text = (texts / name).with_suffix(SIDECAR)
        captions = [line for line in read_lines(text) if line.strip()] if text.is_file() else []
        yield Row(1, name.as_posix(), tuple(captions), _stated_split(name))


def _stated_split(name: Path) -> str:
    """The split that one of the picture's folders is called after; empty where none is."""
    return next((split for split in map(split_name, name.parts[:-1]) if split in SPLITS), "")


def _texts_alone(folder: Path, names: set[Path]) -> list[str]:
    texts = sorted(each.relative_to(folder) for each in folder.rglob(f"*{SIDECAR}"))
    return [text.as_posix() for text in texts if text.with_suffix("") not in names]
