"""Caption pictures with an exported captioner; needs torch or onnxruntime, numpy and Pillow, and nothing else.

    python loop.py photo.jpg another.png

It lies beside `encoder` and `step` (.pt2 or .onnx) and `export.json`, which tells all that they do not: how a picture
becomes pixels, which number is which word, and when a caption ends. Read it as the description of how to use them.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

Program = Callable[..., list[np.ndarray]]


def load_program(path: Path) -> Program:
    """Arrays in, arrays out."""
    if path.suffix == ".onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        # An input that a graph turned out not to need is not among its names.
        given = json.loads((path.parent / "export.json").read_text())["inputs"][path.stem]
        return lambda *arrays: session.run(
            None, {name: array for name, array in zip(given, arrays, strict=True) if name in names}
        )
    import torch

    module = torch.export.load(path).module()
    return lambda *arrays: [tensor.detach().numpy() for tensor in module(*map(torch.from_numpy, arrays))]


def read_pixels(path: Path, settings: dict[str, Any]) -> np.ndarray:
    """(3, S, S): the picture upright, in RGB, fitted into the square and normalized."""
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    square = np.asarray(fit_square(image, settings), dtype=np.float32) / 255
    mean, deviation = (np.asarray(settings[name], dtype=np.float32) for name in ("mean", "deviation"))
    return ((square - mean) / deviation).transpose(2, 0, 1).copy()


def fit_square(image: Image.Image, settings: dict[str, Any]) -> Image.Image:
    """crop: the centre square; squash: all of it, stretched; pad: all of it, on a square of the mean colour."""
    size, resampling = settings["size"], Image.Resampling[settings["interpolation"].upper()]
    if settings["fit"] == "squash":
        return image.resize((size, size), resampling)
    if settings["fit"] == "crop":
        side = settings["crop_fraction"] * min(image.size)
        left, top = (image.width - side) / 2, (image.height - side) / 2
        return image.resize((size, size), resampling, box=(left, top, left + side, top + side))
    width, height = (max(1, round(size * side / max(image.size))) for side in image.size)
    square = Image.new("RGB", (size, size), tuple(round(255 * level) for level in settings["mean"]))
    square.paste(image.resize((width, height), resampling), ((size - width) // 2, (size - height) // 2))
    return square


def caption(pixels: np.ndarray, encoder: Program, step: Program, told: dict[str, Any]) -> tuple[list[str], np.ndarray]:
    """The likeliest word at every step, and where it looked: T words and maps (T, rows, columns)."""
    regions, *state = encoder(np.repeat(pixels[None], told["batch_size"], axis=0))
    word, words, maps = told["start"], [], []
    for length in range(told["maximum_length"]):
        log_probabilities, weights, *state = step(regions, np.full(told["batch_size"], word, dtype=np.int64), *state)
        scores = log_probabilities[0].copy()
        scores[told["forbidden"]] = -np.inf
        if length < told["minimum_length"]:
            scores[told["end"]] = -np.inf
        word = int(scores.argmax())
        if word == told["end"]:
            break
        words.append(told["vocabulary"][word])
        maps.append(weights[0].reshape(told["rows"], told["columns"]))
    return words, np.array(maps)


def main() -> None:
    """A line a picture: its path, a tab, its caption."""
    folder = Path(__file__).parent
    told = json.loads((folder / "export.json").read_text(encoding="utf-8"))
    encoder, step = (load_program(folder / told["files"][name]) for name in ("encoder", "step"))
    for path in sys.argv[1:]:
        words, _ = caption(read_pixels(Path(path), told["preprocessing"]), encoder, step, told)
        print(path, " ".join(words), sep="\t")


if __name__ == "__main__":
    main()
