"""Do our metrics give what the common COCO scorer (pycocoevalcap, with its Java programs) gives, on real captions?

Prints, and writes into docs/metrics.md, the tokens and the values of both with their largest differences; exit status
1 if one is beyond its bound. Run as `make parity`, or `python -m scripts.parity --data FOLDER`; without the data it
takes the sample in tests/. `--sample FILE` makes that sample from COCO's captions_val2017.json.
"""

import json
import os
import random
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from captioning.metrics import score
from captioning.metrics.table import markdown_table
from captioning.text.tokenize import tokenize
from scripts.judging.caption_sets import SAMPLE, CaptionPairs, read_sets
from scripts.judging.coco_scorer import Values, meteor, python_metrics, tokenized

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
BEGIN, END = "<!-- made by scripts/parity.py -->", "<!-- end -->"
NAMES = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D")
EXACT = 1e-9
METEOR_CORPUS, METEOR_IMAGE, METEOR_SHARE = 1e-4, 1e-3, 0.999
"""METEOR's bounds: of the corpus, of an image, and the share of images within the latter."""


class Judged(NamedTuple):
    """A set's rows of the table, and whether all of them are within their bounds."""

    rows: list[list[str]]
    fits: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare all sets."""
    options = _options(arguments)
    if options.sample is not None:
        write_sample(Path(options.sample))
        return 0
    heading = ["captions", "metric", "images", "ours", "judge", "corpus differs by", "an image at most by"]
    rows, fits = [heading], True
    tokens = [["captions", "texts", "other words"]]
    for each in read_sets(None if options.data is None else Path(options.data)):
        chosen = each.first(options.images)
        other, texts = _compare_tokens(chosen)
        tokens.append([chosen.name, str(len(chosen.texts)), str(other)])
        judged = _compare_metrics(chosen, texts)
        rows += judged.rows
        fits &= judged.fits and other == 0
        print(f"{chosen.name}: {'as the judge' if judged.fits and other == 0 else 'BEYOND ITS BOUNDS'}", flush=True)
        text = f"{markdown_table(tokens)}\n\n{markdown_table(rows)}"
        if not options.dry:
            _write(text)  # after each set: Java takes its time
    print(f"\n{text}")
    return 0 if fits else 1


def _options(arguments: Sequence[str] | None):
    parser = ArgumentParser(description=__doc__)
    shared = os.environ.get("CAPTIONING_SHARED")
    parser.add_argument("--data", default=str(Path(shared, "data")) if shared else None, help="folder of the captions")
    parser.add_argument("--images", type=int, help="only the first of each set")
    parser.add_argument("--dry", action="store_true", help="leave docs/metrics.md as it is")
    parser.add_argument(
        "--sample", metavar="FILE", help="make the sample of the tests from COCO's captions_val2017.json"
    )
    return parser.parse_args(arguments)


def _compare_tokens(pairs: CaptionPairs) -> tuple[int, list[str]]:
    """How many texts the judge cuts into other words, and all texts as the judge cuts them."""
    theirs = tokenized(pairs.texts)
    # A mixed fraction ("22 3/4") holds a no-break space there; its BLEU, CIDEr and METEOR read two words, as we do.
    other = sum(tokenize(text) != cut.split() for text, cut in zip(pairs.texts, theirs, strict=True))
    return other, theirs


def _compare_metrics(pairs: CaptionPairs, texts: Sequence[str]) -> Judged:
    captions, references = _split(pairs, texts)
    judge = python_metrics(captions, references)
    judge |= meteor(captions, references) if pairs.meteor is None else {"METEOR": pairs.meteor}
    return _judged(pairs, judge)


def _split(pairs: CaptionPairs, texts: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Texts in the order of `pairs.texts` -> captions, references."""
    rest = iter(texts)
    captions = [next(rest) for _ in pairs.captions]
    return captions, [[next(rest) for _ in image] for image in pairs.references]


def _judged(pairs: CaptionPairs, judge: Values) -> Judged:
    """Our values beside the judge's."""
    ours = score(dict(enumerate(pairs.captions)), dict(enumerate(pairs.references)), NAMES)
    rows, fits = [], True
    for name in NAMES:
        corpus, images = judge[name]
        off = abs(ours.corpus[name] - corpus)
        apart = np.abs(np.array(list(ours.per_image[name].values())) - images)
        fits &= _within(name, off, apart)
        values = [f"{ours.corpus[name]:.6f}", f"{corpus:.6f}", f"{off:.1e}", f"{apart.max():.1e}"]
        rows.append([pairs.name, name, str(len(images)), *values])
    return Judged(rows, fits)


def _within(name: str, off: float, apart: np.ndarray) -> bool:
    if name == "METEOR":
        return off <= METEOR_CORPUS and float((apart <= METEOR_IMAGE).mean()) >= METEOR_SHARE
    return max(off, float(apart.max())) <= EXACT


def _write(text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN, 1)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def write_sample(coco: Path, *, images: int = 150, seed: int = 5) -> None:
    """Draw images, two thirds of them with an unusual sign in a caption, and store what the judge says."""
    found: dict[int, list[str]] = {}
    for row in json.loads(coco.read_text(encoding="utf-8"))["annotations"]:
        found.setdefault(row["image_id"], []).append(row["caption"].replace("\n", " ").strip())
    unusual = [
        image for image, texts in found.items() if any(sign in "'-&/#()0123456789" for text in texts for sign in text)
    ]
    generator = random.Random(seed)
    chosen = sorted({*generator.sample(unusual, images * 2 // 3), *generator.sample(sorted(found), images // 3)})
    pairs = CaptionPairs("sample", [found[image][0] for image in chosen], [found[image][1:] for image in chosen])
    captions, references = _split(pairs, tokenized(pairs.texts))
    judge = python_metrics(captions, references) | meteor(captions, references)
    rows = [
        {
            "image_id": image,
            "caption": pairs.captions[place],
            "references": pairs.references[place],
            "tokens": captions[place],
            "reference_tokens": references[place],
            "values": {name: judge[name][1][place] for name in NAMES},
        }
        for place, image in enumerate(chosen)
    ]
    content = {
        "source": "COCO val2017 captions, COCO Consortium (cocodataset.org), CC BY 4.0",
        "made_by": "python -m scripts.parity --sample captions_val2017.json: pycocoevalcap 1.2 and its Java programs",
        "corpus": {name: judge[name][0] for name in NAMES},
        "images": rows,
    }
    SAMPLE.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
