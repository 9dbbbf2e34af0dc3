"""All metrics of a set of captions in one call: `score`, or `Scorer` where the references stay the same."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captioning.errors import ConfigError, DataError
from captioning.metrics.bleu import bleu, bleu_statistics
from captioning.metrics.bootstrap import Bootstrap, Interval, Summable
from captioning.metrics.cider import Cider, CiderD, CiderPlain
from captioning.metrics.frequencies import DocumentFrequencies
from captioning.metrics.meteor import Meteor
from captioning.metrics.meteor import scores as meteor_scores
from captioning.metrics.ngrams import Compared
from captioning.metrics.rouge import rouge_l
from captioning.metrics.spice import spice
from captioning.text.characters import space_out
from captioning.text.tokenize import tokenize

DEFAULT = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D")
"""What papers report; BLEU without brevity penalty, plain CIDEr and SPICE are computed when asked for by name."""


@dataclass(frozen=True)
class Scores:
    """The values of a set of captions: BLEU, METEOR, ROUGE-L and SPICE from 0 to 1, CIDEr from 0 to 10."""

    corpus: dict[str, float] = field(default_factory=dict)
    """Metric -> value of the whole set (BLEU and METEOR: from summed counts, not the mean over images)."""
    per_image: dict[str, dict[Any, float]] = field(default_factory=dict)
    """Metric -> image -> value."""
    unavailable: dict[str, str] = field(default_factory=dict)
    """Metric that was asked for and has no value here -> reason."""
    intervals: dict[str, Interval] = field(default_factory=dict)
    """Metric -> 95 % confidence interval of the value of the whole set, where resamples were asked for."""


class Scorer:
    """Scores captions against references that are tokenized once."""

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
            image: [compared_words(caption) for caption in captions] for image, captions in references.items()
        }
        self.frequencies = frequencies

    def score(self, hypotheses: Mapping[Any, str], *, missing_as_empty: bool = False, resamples: int = 0) -> Scores:
        """Scores one caption for each image of the references.

        A missing caption is a DataError, or with `missing_as_empty` scored as one without words; it never
        drops out of the mean. Captions of unknown images and an empty set are always errors. With `resamples`
        (1,000, say) each value of the whole set gets a confidence interval, by bootstrap over the images.
        """
        metrics, unavailable = self.measure(hypotheses, missing_as_empty=missing_as_empty)
        scores = Scores(unavailable=unavailable)
        bootstrap = Bootstrap(len(self.references), resamples=resamples) if resamples else None
        for name, metric in metrics.items():
            scores.corpus[name] = metric.corpus
            scores.per_image[name] = dict(zip(self.references, metric.images.tolist(), strict=True))
            if bootstrap is not None:
                scores.intervals[name] = bootstrap.interval(metric)
        return scores

    def measure(
        self, hypotheses: Mapping[Any, str], *, missing_as_empty: bool = False
    ) -> tuple[dict[str, Summable], dict[str, str]]:
        """Each metric as counts of the images, in the order of the references; and why others are unavailable."""
        _check_images(hypotheses, self.references, missing_as_empty=missing_as_empty)
        captions = _Captions(self, [compared_words(hypotheses.get(image, "")) for image in self.references])
        metrics, unavailable = {}, {}
        for name in self.metrics:
            try:
                metrics[name] = METRICS[name](captions)
            except DataError as reason:
                unavailable[name] = str(reason)
        return metrics, unavailable


def compared_words(caption: str) -> list[str]:
    """What is compared: words, and characters of scripts that are written without spaces."""
    return tokenize(space_out(caption))


def score(
    hypotheses: Mapping[Any, str],
    references: Mapping[Any, Sequence[str]],
    metrics: Sequence[str] = DEFAULT,
    *,
    frequencies: DocumentFrequencies | None = None,
    missing_as_empty: bool = False,
    resamples: int = 0,
) -> Scores:
    """Scores one caption an image against its references; both are tokenized here, alike.

    Ids are compared as they are: 7, "7" and "007" are three images. Errors: `Scorer` and `Scorer.score`.
    """
    scorer = Scorer(references, metrics, frequencies=frequencies)
    return scorer.score(hypotheses, missing_as_empty=missing_as_empty, resamples=resamples)


@dataclass(frozen=True)
class _Captions:
    """The captions to score, tokenized, in the order of the references, and what metrics share."""

    scorer: Scorer
    words: list[list[str]]

    @property
    def references(self) -> list[list[list[str]]]:
        return list(self.scorer.references.values())

    @cached_property
    def compared(self) -> Compared:
        return Compared.one_each(self.words, self.references)

    @cached_property
    def bleu_statistics(self) -> NDArray[np.float64]:
        return bleu_statistics(self.compared).astype(np.float64)

    @cached_property
    def frequencies(self) -> DocumentFrequencies:
        return self.scorer.frequencies or DocumentFrequencies.of_references(self.compared)


def _bleu(captions: _Captions, *, longest: int, brevity_penalty: bool) -> Summable:
    return Summable(
        captions.bleu_statistics, lambda counts: bleu(counts, brevity_penalty=brevity_penalty)[..., longest - 1]
    )


def _rouge_l(captions: _Captions) -> Summable:
    values = [rouge_l(words, others) for words, others in zip(captions.words, captions.references, strict=True)]
    return Summable.mean(np.array(values))


def _cider(captions: _Captions, *, kind: type[Cider]) -> Summable:
    return Summable.mean(kind.of(captions.compared, captions.frequencies))


_meteor_of_package = cache(Meteor)


def _meteor(captions: _Captions) -> Summable:
    return Summable(_meteor_of_package().counts(captions.words, captions.references), meteor_scores)


def _spice(captions: _Captions) -> Summable:
    texts = [[" ".join(words) for words in image] for image in captions.references]
    return Summable.mean(spice([" ".join(words) for words in captions.words], texts))


METRICS: dict[str, Callable[[_Captions], Summable]] = {
    **{f"BLEU-{n}": partial(_bleu, longest=n, brevity_penalty=True) for n in range(1, 5)},
    **{f"BLEU-{n}-no-penalty": partial(_bleu, longest=n, brevity_penalty=False) for n in range(1, 5)},
    "METEOR": _meteor,
    "ROUGE-L": _rouge_l,
    "CIDEr-D": partial(_cider, kind=CiderD),
    "CIDEr-plain": partial(_cider, kind=CiderPlain),
    "SPICE": _spice,
}
"""Name -> function, which raises DataError where the metric is unavailable; a new metric is a file and a line here."""


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
