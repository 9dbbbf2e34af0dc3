"""SPICE (Anderson et al., 2016), by the Java program that comes with the package pycocoevalcap; never by default."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from captioning.errors import DataError
from captioning.metrics.meteor.tables import EXTRA, user_cache

MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
"""Files that the package downloads, once, when it is asked to."""


def spice(captions: Sequence[str], references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """(images,) the score of each caption, as text; the corpus has their mean.

    Temporary files and the program's cache lie in the system's places for them, never in the package. DataError
    says what is missing: Java, the package, or its language models.
    """
    command = [_java(), "-Xmx8G", "-jar", str(_program())]
    rows = [
        {"image_id": place, "test": caption, "refs": list(texts)}
        for place, (caption, texts) in enumerate(zip(captions, references, strict=True))
    ]
    cache = user_cache() / "spice"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "captions.json"), Path(folder, "scores.json")
        asked.write_text(json.dumps(rows), encoding="utf-8")
        options = [str(asked), "-cache", str(cache), "-out", str(answered), "-subset", "-silent"]
        done = subprocess.run([*command, *options], capture_output=True, check=False)
        if done.returncode != 0 or not answered.is_file():
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise DataError(f"SPICE: its Java program ended with status {done.returncode}: {last[0]}")
        return _read(answered, len(rows))


def _java() -> str:
    found = shutil.which("java")
    if found is None:
        raise DataError("SPICE is a Java program, and there is no java on the PATH: install a Java runtime (8 or 11)")
    return found


def _program() -> Path:
    found = find_spec("pycocoevalcap")
    if found is None or not found.submodule_search_locations:
        raise DataError(f"SPICE comes with pycocoevalcap, which is not installed: pip install 'captioning[{EXTRA}]'")
    folder = Path(found.submodule_search_locations[0], "spice")
    missing = [name for name in MODELS if not (folder / "lib" / name).is_file()]
    if missing:
        raise DataError(
            f"SPICE needs language models that are not there ({', '.join(missing)}); download them once with "
            "`python -m pycocoevalcap.spice.get_stanford_models`"
        )
    return folder / "spice-1.0.jar"


def _read(path: Path, images: int) -> NDArray[np.float64]:
    rows = json.loads(path.read_text(encoding="utf-8"))
    values = {int(row["image_id"]): float(row["scores"]["All"]["f"]) for row in rows}
    if sorted(values) != list(range(images)):
        raise DataError(f"SPICE: expected the scores of {images} images, its Java program gave {len(values)}")
    return np.array([values[image] for image in range(images)])
