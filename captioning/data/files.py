"""Caption files as text, and the pictures that they name."""

import unicodedata
from pathlib import Path

from captioning.errors import DataError


def read_text(path: Path) -> str:
    """A UTF-8 file, with or without byte-order mark, its line ends all turned into one newline."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{path}: expected a file, found nothing there") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8, got other bytes at {error.start}; save it as UTF-8") from None
    except OSError as error:
        raise DataError(f"{path}: can't be read: {error.strerror}") from None


def read_lines(path: Path) -> list[str]:
    """Its lines without their ends; Unicode's other separators don't end a line, captions may hold them."""
    return read_text(path).split("\n")


def normalize_name(name: str) -> str:
    """A picture's name in Unicode's composed form, so that one name typed on two systems stays one name."""
    return unicodedata.normalize("NFC", name.strip())


def is_file(path: Path) -> bool:
    """Whether there is a file; False, too, for what can't be a file's name, such as a whole sentence."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def find_picture(folder: Path, name: str) -> Path:
    """The file in `folder` that `name` means, written composed, decomposed or with backslashes."""
    composed = normalize_name(name)
    spellings = (composed, name.strip(), unicodedata.normalize("NFD", composed), composed.replace("\\", "/"))
    paths = [folder / spelling for spelling in spellings]
    return next((path for path in paths if is_file(path)), paths[0])
