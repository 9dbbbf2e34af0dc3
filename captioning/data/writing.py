"""Writing a caption set as a file that `read_captions` gives back."""

import csv
import io
import json
from pathlib import Path

from captioning.data.records import CaptionSet
from captioning.errors import DataError

TABLE, LISTS = "captions.csv", "captions.json"


def write_captions(captions: CaptionSet, folder: Path) -> Path:
    """Write the set into `folder`: captions.csv, or captions.json (Karpathy's form) where ids are no file names.

    Pictures stay where they are and are named by their full path. Raises DataError where a file of that name is there
    already, or where pictures are no files.
    """
    held = next((record for record in captions.records if record.content is not None), None)
    if held is not None:
        raise DataError(f"{held.path}: expected pictures in files, to name them in a list, got one inside another file")
    by_name = all(record.image_id == record.path.name for record in captions.records)
    path = folder / (TABLE if by_name else LISTS)
    if path.exists():
        raise DataError(f"{path}: there is one already; give another folder")
    text = _as_table(captions) if by_name else _as_lists(captions)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.partial")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
    return path


def _as_table(captions: CaptionSet) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("image", "caption", "split"))
    for record in captions.records:
        writer.writerows((str(record.path.resolve()), caption, record.split) for caption in record.captions)
    return stream.getvalue()


def _as_lists(captions: CaptionSet) -> str:
    images = [
        {
            "filename": str(record.path.resolve()),
            "cocoid": record.image_id,
            "split": record.split,
            "sentences": [{"raw": caption} for caption in record.captions],
        }
        for record in captions.records
    ]
    return json.dumps({"images": images}, ensure_ascii=False, indent=1) + "\n"
