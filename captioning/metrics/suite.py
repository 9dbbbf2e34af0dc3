"""All metrics of a set of captions in one call: `score`, or `Scorer` where the references stay the same."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captioning.errors import ConfigError, DataError
from captioning.metrics.bleu import bleu, bleu_statistics
from captioning.metrics.cider import Cider, CiderD, CiderPlain, DocumentFrequencies
from captioning.metrics.ngrams import CountedCaption, count_ngrams
from captioning.metrics.rouge import rouge_l
from captioning.text.characters import space_out
from captioning.text.tokenize import tokenize

DEFAULT = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D")
"""What papers report; BLEU without brevity penalty and plain CIDEr are computed when asked for by name."""


@dataclass(frozen=True)
class Scores:
    """The values of a set of captions: BLEU, METEOR and ROUGE-L from 0 to 1, CIDEr from 0 to 10."""

    corpus: dict[str, float] = field(default_factory=dict)
    """Metric -> value of the whole set (BLEU: from summed counts, not the mean over images)."""
    per_image: dict[str, dict[Any, float]] = field(default_factory=dict)
    """Metric -> image -> value."""
    unavailable: dict[str, str] = field(default_factory=dict)
    """Metric that was asked for and has no value here -> reason."""


class Scorer:
    """Scores captions against references that are tokenized and counted once."""

    def __init__(
        self,
        references: Mapping[Any, Sequence[str]],
        metrics: Sequence[str] = DEFAULT,
        *,
        frequencies: DocumentFrequencies | None = None,
    ) -> None:
        """`references`: image -> captions; `frequencies`: for CIDEr, counted from these if None."""
        self.metrics = _checked_metrics(metrics)
        without = [image for image, captions in references.items() if not captions]
        if without:
            raise DataError(f"references: {_some(without)} have no caption; leave these images out")
        self.references = {
            image: [count_ngrams(_words(caption)) for caption in captions] for image, captions in references.items()
        }
        self._frequencies = frequencies
        self._ciders: dict[type[Cider], Cider] = {}

    def score(self, hypotheses: Mapping[Any, str], *, missing_as_empty: bool = False) -> Scores:
        """Scores one caption for each image of the references.

        A missing caption is a DataError, or with `missing_as_empty` scored as one without words; it never
        drops out of the mean. Captions of unknown images and an empty set are always errors.
        """
        _check_images(hypotheses, self.references, missing_as_empty=missing_as_empty)
        counted = {image: count_ngrams(_words(hypotheses.get(image, ""))) for image in self.references}
        captions = _Captions(self, counted)
        scores = Scores()
        for name in self.metrics:
            try:
                corpus, values = METRICS[name](captions)
            except _UnavailableError as reason:
                scores.unavailable[name] = str(reason)
            else:
                scores.corpus[name] = float(corpus)
                scores.per_image[name] = dict(zip(self.references, map(float, values), strict=True))
        return scores

    def cider(self, kind: type[Cider]) -> Cider:
        """CIDEr-D or plain CIDEr that keeps the vectors of all references."""
        if kind not in self._ciders:
            if self._frequencies is None:
                self._frequencies = DocumentFrequencies.of(self.references.values())
            self._ciders[kind] = kind(self.references, frequencies=self._frequencies, keep=len(self.references))
        return self._ciders[kind]


def _words(caption: str) -> list[str]:
    """What is compared: words, and characters of scripts that are written without spaces."""
    return tokenize(space_out(caption))


def score(
    hypotheses: Mapping[Any, str],
    references: Mapping[Any, Sequence[str]],
    metrics: Sequence[str] = DEFAULT,
    *,
    frequencies: DocumentFrequencies | None = None,
    missing_as_empty: bool = False,
) -> Scores:
    """Scores one caption an image against its references; both are tokenized here, alike.

    Ids are compared as they are: 7, "7" and "007" are three images. Errors: `Scorer` and `Scorer.score`.
    """
    scorer = Scorer(references, metrics, frequencies=frequencies)
    return scorer.score(hypotheses, missing_as_empty=missing_as_empty)


class _UnavailableError(Exception):
    """Says why a metric has no value here."""


@dataclass(frozen=True)
class _Captions:
    """The captions to score, in the order of the references, and what metrics share."""

    scorer: Scorer
    counted: dict[Any, CountedCaption]

    @cached_property
    def bleu_statistics(self) -> NDArray[np.int64]:
        references = self.scorer.references
        return np.array([bleu_statistics(caption, references[image]) for image, caption in self.counted.items()])


_Values = tuple[float, Iterable[float]]
"""The value of the corpus, then those of the images."""


def _bleu(captions: _Captions, *, longest: int, brevity_penalty: bool) -> _Values:
    statistics = captions.bleu_statistics
    corpus = bleu(statistics.sum(axis=0), brevity_penalty=brevity_penalty)
    images = bleu(statistics, brevity_penalty=brevity_penalty)
    return corpus[longest - 1], images[:, longest - 1]


def _rouge_l(captions: _Captions) -> _Values:
    values = []
    for image, caption in captions.counted.items():
        others = [reference.words for reference in captions.scorer.references[image]]
        values.append(rouge_l(caption.words, others))
    return float(np.mean(values)), values


def _cider(captions: _Captions, *, kind: type[Cider]) -> _Values:
    try:
        values = captions.scorer.cider(kind).score(captions.counted).values()
    except DataError as error:
        raise _UnavailableError(str(error)) from error
    return float(np.mean(list(values))), values


def _meteor(captions: _Captions) -> _Values:
    raise _UnavailableError("METEOR is not part of this version")


METRICS: dict[str, Callable[[_Captions], _Values]] = {
    **{f"BLEU-{n}": partial(_bleu, longest=n, brevity_penalty=True) for n in range(1, 5)},
    **{f"BLEU-{n}-no-penalty": partial(_bleu, longest=n, brevity_penalty=False) for n in range(1, 5)},
    "METEOR": _meteor,
    "ROUGE-L": _rouge_l,
    "CIDEr-D": partial(_cider, kind=CiderD),
    "CIDEr-plain": partial(_cider, kind=CiderPlain),
}
"""Name -> function; a new metric is a file and a line here."""


def _checked_metrics(metrics: Sequence[str]) -> tuple[str, ...]:
    if isinstance(metrics, str):
        metrics = (metrics,)
    for name in metrics:
        if name not in METRICS:
            near = difflib.get_close_matches(name, METRICS, n=1, cutoff=0)
            raise ConfigError(f"metrics: there is no {name!r}; did you mean {near[0]!r}? Known: {', '.join(METRICS)}")
    return tuple(metrics)


def _check_images(hypotheses: Mapping[Any, str], references: Mapping[Any, Any], *, missing_as_empty: bool) -> None:
    if not references or not hypotheses:
        raise DataError(f"nothing to score: {len(hypotheses)} captions against references of {len(references)} images")
    unknown = [image for image in hypotheses if image not in references]
    missing = [image for image in references if image not in hypotheses]
    if unknown:
        raise DataError(
            f"captions and references are not of the same images: {_some(unknown)} of the captions are not "
            f"among the references ({_some(list(references))}){_type_hint(unknown, references)}"
        )
    if missing and not missing_as_empty:
        raise DataError(
            f"captions and references are not of the same images: {_some(missing)} of the references have no "
            f"caption among those given ({_some(list(hypotheses))}); caption them, or have missing captions "
            "scored as empty"
        )


def _type_hint(unknown: Sequence[Any], references: Iterable[Any]) -> str:
    names = {type(image).__name__ for image in unknown} | {type(image).__name__ for image in references}
    same_text = {str(image) for image in unknown} & {str(image) for image in references}
    if not same_text:
        return ""
    return f"; some read alike but are of different types ({', '.join(sorted(names))}): write them alike"


def _some(images: Sequence[Any]) -> str:
    """How many, and three examples."""
    examples = [repr(image) for image in images[:3]] + ["..."] * (len(images) > 3)
    return f"{len(images)} image{'s' * (len(images) != 1)} ({', '.join(examples)})"
