"""A captioner on captioned images: free-running captions, and the metrics of the whole set."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from captioning.captioner import Caption, Captioner
from captioning.data.dataset import CaptionDataset, make_loader
from captioning.data.records import CaptionSet
from captioning.data.sampler import EvaluationSampler
from captioning.data.sources import Pictures
from captioning.data.synthetic import DrawnSet
from captioning.decoding.search import Search
from captioning.disk import write_json
from captioning.errors import DataError
from captioning.metrics import DEFAULT, DocumentFrequencies, Scores, score
from captioning.metrics.attention import Pointing, pointing
from captioning.metrics.results import one_each, samples_by_image
from captioning.metrics.suite import compared_words

REPORTED = (*DEFAULT, "BLEU-1-no-penalty", "BLEU-2-no-penalty", "BLEU-3-no-penalty", "BLEU-4-no-penalty")


@dataclass(frozen=True)
class Predictions:
    """One caption an image."""

    captions: dict[str, str]
    """image_id -> caption."""
    unfinished: int
    """How many were cut off at the longest length."""


def predict(
    captioner: Captioner,
    captions: CaptionSet,
    pictures: Pictures,
    *,
    search: Search | None = None,
    batch_size: int = 64,
    progress: Callable[[int, int], None] | None = None,
) -> Predictions:
    """Caption every image once."""
    dataset = CaptionDataset(captions, captioner.vocabulary, pictures)
    loader = make_loader(dataset, EvaluationSampler(len(dataset), batch_size=batch_size))
    said: dict[str, str] = {}
    unfinished = 0
    for batch in loader:
        features = captioner.features(batch.to(captioner.device))
        for image_id, (best, *_) in zip(
            batch.image_ids, captioner.search(features, search or captioner.default_search), strict=True
        ):
            said[image_id] = captioner.vocabulary.join(captioner.vocabulary.decode(best.words))
            unfinished += not best.finished
        if progress is not None:
            progress(len(said), len(dataset))
    return Predictions(said, unfinished)


def score_predictions(
    predictions: Mapping[str, str],
    captions: CaptionSet,
    *,
    metrics: Sequence[str] = REPORTED,
    frequencies: DocumentFrequencies | None = None,
    missing_as_empty: bool = False,
    resamples: int = 0,
) -> Scores:
    """The metrics of the whole set, BLEU with and without brevity penalty; each image once."""
    return score(
        predictions,
        captions.references,
        metrics,
        frequencies=frequencies,
        missing_as_empty=missing_as_empty,
        resamples=resamples,
    )


def count_frequencies(captions: CaptionSet) -> DocumentFrequencies:
    """In how many images each n-gram occurs, for CIDEr of other images or as a reward. Raises DataError."""
    return DocumentFrequencies.of(
        [[compared_words(caption) for caption in record.captions] for record in captions.records]
    )


@dataclass(frozen=True)
class DrawnScores:
    """How well a captioner does on the drawn set's test pictures, where every right answer is known."""

    captions: dict[str, Caption]
    """image_id -> what it said."""
    images: dict[str, Image.Image]
    """image_id -> the picture."""
    exact: float
    """Share of the captions that are the true one, word for word."""
    pointing: Pointing
    """Over colour and shape words of the exact captions: is the largest weight on the object's cell?"""


def score_drawn(captioner: Captioner, drawn: DrawnSet) -> DrawnScores:
    """Caption the test pictures with the captioner's own search."""
    images = {
        record.image_id: Image.fromarray(pixels)
        for record, pixels in zip(drawn.captions.records, drawn.pixels, strict=True)
        if record.split == "test"
    }
    captions = dict(zip(images, captioner.caption(images.values(), batch_size=200), strict=True))
    test = drawn.captions.split("test")
    right = [each.image_id for each in test.records if captions[each.image_id].text == each.captions[0]]
    points = pointing([captions[name].maps for name in right], [drawn.word_cells[name] for name in right])
    return DrawnScores(captions, images, len(right) / len(test), points)


def write_predictions(path: Path, predictions: Mapping[str, str]) -> None:
    """COCO results JSON, which any public scorer reads."""
    rows = [{"image_id": image_id, "caption": caption} for image_id, caption in predictions.items()]
    write_json(path, rows)


def read_samples(path: Path) -> dict[str, list[str]]:
    """COCO results JSON in which an image may have several captions; ids as text. Raises DataError."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: expected COCO results JSON ({error})") from error
    if not isinstance(rows, list):
        raise DataError(f"{path}: expected a list of image_id and caption, got a {type(rows).__name__}")
    return samples_by_image(rows)


def read_predictions(path: Path) -> dict[str, str]:
    """The inverse of `write_predictions`; ids as text. Raises DataError, also for an image that comes twice."""
    return one_each(read_samples(path))


def search_details(search: Search) -> dict[str, Any]:
    """What a reader must know of how captions were searched, in plain types."""
    return search.details()


def write_scores(
    path: Path, scores: Scores, *, details: Mapping[str, Any], statistics: Mapping[str, Any] | None = None
) -> None:
    """The corpus values with all that a reader must know to compare them."""
    content = {"scores": scores.corpus, "intervals": scores.intervals, "unavailable": scores.unavailable, **details}
    if statistics is not None:
        content["statistics"] = statistics
    write_json(path, content)


def write_image_scores(path: Path, scores: Scores) -> None:
    """JSON: image_id -> metric -> value."""
    images: dict[str, dict[str, float]] = {}
    for name, values in scores.per_image.items():
        for image_id, value in values.items():
            images.setdefault(image_id, {})[name] = value
    write_json(path, images)
