"""What captions are like, apart from how well they fit: how many kinds there are, how long they are, how they vary."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captioning.errors import DataError
from captioning.metrics.bootstrap import Summable
from captioning.metrics.frequencies import DocumentFrequencies
from captioning.metrics.ngrams import LONGEST, Words, count_ngrams
from captioning.metrics.suite import Scorer
from captioning.text.tokenize import tokenize


@dataclass(frozen=True)
class CaptionStatistics:
    """Of one caption an image."""

    captions: int
    """How many there are."""
    distinct: float
    """Share of different captions among them; 1: no two images have the same."""
    novel: float | None
    """Share of captions that no training caption equals; None without training captions."""
    words_used: int
    """Different words in all captions."""
    vocabulary_used: float | None
    """Share of the model's words that occur in some caption; None without a model."""
    mean_length: float
    """Words a caption."""
    cut_off: float | None
    """Share of captions that ended at the longest length, not by their own end; None where this is not known."""


def describe_captions(
    captions: Sequence[str],
    *,
    training_captions: Sequence[str] = (),
    vocabulary_words: Collection[str] = (),
    cut_off: int | None = None,
) -> CaptionStatistics:
    """Captions are compared as tokenized; `cut_off` counts those that ended at the longest length."""
    if not captions:
        raise DataError("caption statistics: expected at least one caption, got none")
    said = [tuple(tokenize(caption)) for caption in captions]
    known = {tuple(tokenize(caption)) for caption in training_captions}
    words = {word for caption in said for word in caption}
    return CaptionStatistics(
        captions=len(said),
        distinct=len(set(said)) / len(said),
        novel=sum(caption not in known for caption in said) / len(said) if known else None,
        words_used=len(words),
        vocabulary_used=len(words & set(vocabulary_words)) / len(vocabulary_words) if vocabulary_words else None,
        mean_length=sum(map(len, said)) / len(said),
        cut_off=None if cut_off is None else cut_off / len(said),
    )


@dataclass(frozen=True)
class Diversity:
    """Of several captions an image; means over the images."""

    captions_per_image: int
    """How many each image has."""
    self_cider: float
    """From 0 (all captions of an image equal) to 1 (none shares an n-gram with another)."""
    distinct_1: float
    """Different words ÷ words, over the captions of an image (Div-1)."""
    distinct_2: float
    """Different pairs of words ÷ words, over the captions of an image (Div-2)."""
    oracle: dict[str, float]
    """Metric -> its value for the whole set if of each image the caption were kept that it rates best."""


def describe_samples(
    samples: Mapping[Any, Sequence[str]], scorer: Scorer, frequencies: DocumentFrequencies
) -> Diversity:
    """`samples`: image -> its captions, at least 2, everywhere as many; `scorer` gives the oracle's metrics."""
    many = {len(captions) for captions in samples.values()}
    if len(many) != 1 or min(many) < 2:
        raise DataError(
            "diversity: expected as many captions for each image, at least 2, got "
            f"{min(many, default=0)} to {max(many, default=0)}"
        )
    groups = [[tokenize(caption) for caption in captions] for captions in samples.values()]
    distinct = np.mean([[_distinct(group, size) for size in (1, 2)] for group in groups], axis=0)
    return Diversity(
        captions_per_image=many.pop(),
        self_cider=float(np.mean([self_cider(group, frequencies) for group in groups])),
        distinct_1=float(distinct[0]),
        distinct_2=float(distinct[1]),
        oracle=_oracle(samples, scorer),
    )


def self_cider(captions: Sequence[Words], frequencies: DocumentFrequencies) -> float:
    """-log_n(max √λ / Σ √λ) with λ the eigenvalues of the n captions' similarities (Wang and Chan, 2019).

    Two captions are as similar as plain CIDEr says, on a scale from 0 to 1: the mean over n-grams of 1 to 4 words of
    the cosine of their weights. Captions without a word are similar to none.
    """
    eigenvalues = np.linalg.eigvalsh(_similarities(captions, frequencies))
    roots = np.sqrt(np.clip(eigenvalues, 0, None))
    if roots.sum() == 0:
        return 0.0
    return float(-np.log(roots.max() / roots.sum()) / np.log(len(captions)))


def _similarities(captions: Sequence[Words], frequencies: DocumentFrequencies) -> NDArray[np.float64]:
    """(n, n) the mean over lengths of n-gram of the cosines of all pairs."""
    counts, tree, sizes = count_ngrams(captions)
    vectors = np.zeros((len(captions), tree.nodes))
    vectors[counts.caption, counts.ngram] = counts.times * frequencies.weights_of(tree)[counts.ngram]
    total = np.zeros((len(captions), len(captions)))
    for size in range(1, sizes.max(initial=0) + 1):
        part = vectors * (sizes == size)
        norms = np.linalg.norm(part, axis=1, keepdims=True)
        unit = np.divide(part, norms, out=np.zeros_like(part), where=norms > 0)
        total += unit @ unit.T
    return total / LONGEST


def _distinct(captions: Sequence[Words], size: int) -> float:
    words = sum(map(len, captions))
    ngrams = {tuple(caption[start : start + size]) for caption in captions for start in range(len(caption) - size + 1)}
    return len(ngrams) / words if words else 0.0


def _oracle(samples: Mapping[Any, Sequence[str]], scorer: Scorer) -> dict[str, float]:
    number = len(next(iter(samples.values())))
    rounds = [
        scorer.measure({image: captions[place] for image, captions in samples.items()})[0] for place in range(number)
    ]
    best = {}
    for name, metric in rounds[0].items():
        counts = np.stack([measured[name].counts for measured in rounds])
        chosen = np.argmax(np.stack([measured[name].images for measured in rounds]), axis=0)
        best[name] = Summable(counts[chosen, np.arange(counts.shape[1])], metric.value).corpus
    return best
