"""A tiny stand-in for METEOR's data: what each table says is known by heart."""

import gzip
import zipfile
from pathlib import Path

from captioning.metrics.meteor.tables import LISTS, Source, Tables, open_tables

PARAPHRASES = [
    ("next to", "beside"),
    ("a lot of", "many"),
    ("many", "a lot of"),
    ("next to", "close by"),
    ("bike", "motor bike"),
]
TEXTS = {
    "function_words": "the\na\nof\non\n",
    "abbreviations": "# comment\nmr\nno #NUMERIC_ONLY#\n",
    "exceptions": "ox\noxen\ngo\nwent gone\n",
    "synsets": "ox\n1 2\nbull\n2\ndog\n3\nhound\n3 4\ngo\n5\nmove\n5\nman\n6\nbox\n7\n",
}


def write_source(folder: Path) -> Source:
    """The jar and the paraphrase table."""
    folder.mkdir(parents=True, exist_ok=True)
    source = Source(folder / "meteor.jar", folder / "paraphrase.gz")
    with zipfile.ZipFile(source.jar, "w") as jar:
        for name, inside in LISTS.items():
            jar.writestr(inside, TEXTS[name])
    lines = [line for phrase, other in PARAPHRASES for line in ("0.5", phrase, other)]
    source.paraphrases.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return source


def tables(folder: Path) -> Tables:
    """Their index."""
    return open_tables(write_source(folder / "package"), folder / "cache")
