"""Sets of captions with references, real ones, that metrics are compared on."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SAMPLE = Path(__file__).parents[2] / "tests" / "metrics" / "coco_sample.json"
"""The sample in this repository: COCO captions (CC BY 4.0), with what the judge says of them."""


@dataclass(frozen=True)
class CaptionPairs:
    """One caption an image, and its references, as written."""

    name: str
    captions: list[str]
    references: list[list[str]]
    meteor: tuple[float, list[float]] | None = None
    """METEOR of the corpus and the images as its Java program gave it, where that is stored."""

    @property
    def texts(self) -> list[str]:
        """All captions and references."""
        return [*self.captions, *(caption for image in self.references for caption in image)]

    def first(self, images: int | None) -> "CaptionPairs":
        """The first images only; what is stored of the whole set is forgotten."""
        if images is None or images >= len(self.captions):
            return self
        return CaptionPairs(f"{self.name}, first {images}", self.captions[:images], self.references[:images])


def read_sets(data: Path | None) -> Iterable[CaptionPairs]:
    """The sets under `data` (metric_parity, coco, flickr8k), as far as they are there; without any, the sample."""
    readers = (
        (
            (data / "metric_parity" / "x_transformer_full.json", _system),
            (data / "coco" / "captions_val2017.json", _coco),
            (data / "flickr8k" / "Flickr8k.token.txt", _flickr8k),
        )
        if data is not None
        else ()
    )
    found = [(path, read) for path, read in readers if path.is_file()]
    return [read(path) for path, read in found] or [_sample()]


def _system(path: Path) -> CaptionPairs:
    stored = json.loads(path.read_text(encoding="utf-8"))
    references = json.loads((path.parent / "coco_karpathy_test_refs.json").read_text(encoding="utf-8"))
    rows = stored["images"]
    return CaptionPairs(
        "a trained captioner on COCO's Karpathy test split",
        [row["caption"] for row in rows],
        [references[str(row["image_id"])] for row in rows],
        (stored["scores"]["METEOR"], [row["METEOR"] for row in rows]),
    )


def _coco(path: Path) -> CaptionPairs:
    captions: dict[int, list[str]] = {}
    for row in json.loads(path.read_text(encoding="utf-8"))["annotations"]:
        captions.setdefault(row["image_id"], []).append(row["caption"].replace("\n", " "))
    return _one_against_others("COCO val2017: a person's caption against the others", captions.values())


def _flickr8k(path: Path) -> CaptionPairs:
    captions: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, caption = line.split("\t", 1)
        captions.setdefault(name.split("#")[0], []).append(caption)
    return _one_against_others("Flickr8k: a person's caption against the others", captions.values())


def _sample() -> CaptionPairs:
    stored = json.loads(SAMPLE.read_text(encoding="utf-8"))
    rows = stored["images"]
    return CaptionPairs(
        "the sample of COCO val2017 in tests/",
        [row["caption"] for row in rows],
        [row["references"] for row in rows],
        (stored["corpus"]["METEOR"], [row["values"]["METEOR"] for row in rows]),
    )


def _one_against_others(name: str, images: Iterable[list[str]]) -> CaptionPairs:
    images = list(images)
    return CaptionPairs(name, [captions[0] for captions in images], [captions[1:] for captions in images])
