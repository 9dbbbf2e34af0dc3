"""How long does it take to read 100,000 captions, or a large picture, and how much memory above the imports?

Each line is measured in a process of its own that has imported everything and done nothing. Run as `python -m
scripts.bench_data`.
"""

import argparse
import csv
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from captioning.data.formats import read_captions
from captioning.data.images import load_image
from captioning.data.records import build_vocabulary
from captioning.data.transforms import ImageTransform
from captioning.errors import ImageError
from captioning.features.preprocessing import Preprocessing

WORDS = (
    "a",
    "man",
    "woman",
    "dog",
    "in",
    "on",
    "with",
    "the",
    "red",
    "street",
    "grass",
    "is",
    "running",
    "two",
    "snow",
)
CAPTIONS_PER_IMAGE = 5


class Cost(NamedTuple):
    """What a job took, above what the imports take."""

    seconds: float
    """By the clock."""
    processor_seconds: float
    """Of computing, whatever else the machine does."""
    mebibytes: float
    result: str
    """What came of it, in a few words."""


def weigh(job: Callable[..., str], *arguments: object) -> Cost:
    """Do a job once in a fresh process; `job` and its arguments must survive pickling."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, job, *arguments).result()


def _measure(job: Callable[..., str], *arguments: object) -> Cost:
    before, started, computed = _peak(), time.perf_counter(), time.process_time()
    result = job(*arguments)
    taken = time.perf_counter() - started, time.process_time() - computed
    return Cost(*taken, (_peak() - before) / 2**20, result)


def _peak() -> int:
    status = Path("/proc/self/status")
    if status.exists():  # Linux; its getrusage also remembers the peak of the parent process.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


def read_all(*paths: Path) -> str:
    """Read caption files one after the other, and build each one's vocabulary."""
    return "; ".join(map(_read, paths))


def _read(path: Path) -> str:
    captions = read_captions(path, check_files=False)
    words = len(build_vocabulary(captions))
    return f"{len(captions):,} images, {len(captions.captions):,} captions, {words} words"


def open_picture(path: Path) -> str:
    """Read a picture and make the encoder's square of it."""
    try:
        image = load_image(path)
    except ImageError as error:
        return f"refused: {str(error).removeprefix(f'{path}: ')[:50]} ..."
    pixels, _ = ImageTransform(Preprocessing(size=224))(image)
    return f"read, {tuple(pixels.shape)}"


def write_captions(folder: Path, captions: int) -> list[Path]:
    """Files of so many captions of 5 to 15 words, one a format."""
    generator = np.random.default_rng(0)
    rows = [
        (f"{number // CAPTIONS_PER_IMAGE:08d}.jpg", " ".join(generator.choice(WORDS, generator.integers(5, 16))))
        for number in range(captions)
    ]
    paths = [folder / name for name in ("tokens.txt", "table.csv", "rows.jsonl", "coco.json")]
    tokens = [f"{name}#{number % CAPTIONS_PER_IMAGE}\t{caption}" for number, (name, caption) in enumerate(rows)]
    paths[0].write_text("\n".join(tokens))
    with paths[1].open("w", newline="") as file:
        csv.writer(file).writerows([("image", "caption"), *rows])
    paths[2].write_text("\n".join(json.dumps({"image": name, "caption": caption}) for name, caption in rows))
    names = list(dict.fromkeys(name for name, _ in rows))
    annotations = [{"image_id": number // CAPTIONS_PER_IMAGE, "caption": text} for number, (_, text) in enumerate(rows)]
    images = [{"id": number, "file_name": name} for number, name in enumerate(names)]
    paths[3].write_text(json.dumps({"images": images, "annotations": annotations}))
    return paths


def write_picture(folder: Path, side: int) -> Path:
    """A grey square of that side as JPEG: a small file of many pixels."""
    path = folder / f"{side}.jpg"
    Image.new("RGB", (side, side), (90, 127, 60)).save(path)
    return path


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captions", type=int, default=100_000, help="how many captions the files hold")
    parser.add_argument("--sides", type=int, nargs="+", default=[4_000, 10_000, 20_000], help="of square pictures")
    options = parser.parse_args()
    print("| job | s | of computing | MiB above the imports | result |\n| --- | ---: | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory() as name:
        jobs = [(read_all, path) for path in write_captions(Path(name), options.captions)]
        jobs += [(open_picture, write_picture(Path(name), side)) for side in options.sides]
        for job, path in jobs:
            cost = weigh(job, path)
            times = f"{cost.seconds:.1f} | {cost.processor_seconds:.1f}"
            print(f"| {path.name} | {times} | {cost.mebibytes:.0f} | {cost.result} |", flush=True)


if __name__ == "__main__":
    main()
