"""Caption files in JSON: what is read must have the form that its reader expects."""

import json
from pathlib import Path
from typing import Any

from captioning.data.files import read_text
from captioning.errors import DataError


def parse_json(text: str, where: str) -> Any:
    """What a JSON text holds. Raises DataError for any text that is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}, line {error.lineno}: expected JSON, got {error.msg}") from None
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, brackets in brackets in ...
        raise DataError(f"{where}: expected JSON, got more than can be read ({error})") from None


def read_images(path: Path) -> dict[str, Any]:
    """The object in a JSON file, which has a list of objects under "images"."""
    content = parse_json(read_text(path), str(path))
    take(content, "images", list, where=str(path))
    return dict(content)


def take(values: Any, key: str, kind: type, *, where: str) -> Any:
    """values[key], which must be there and of that kind."""
    if not isinstance(values, dict) or not isinstance(values.get(key), kind):
        found = f"{type(values[key]).__name__}" if isinstance(values, dict) and key in values else "none"
        raise DataError(f"{where}: expected {key!r} as {kind.__name__}, got {found}")
    return values[key]


def as_id(value: Any, *, where: str) -> str:
    """An id as text; "007" stays what it is."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise DataError(f"{where}: expected an id as number or text, got {value!r}")
    return str(value)
