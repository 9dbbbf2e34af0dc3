"""The common COCO scorer (pycocoevalcap) as judge, its Java programs included."""

import contextlib
import io
from collections.abc import Sequence
from typing import Any

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

BLEU = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4")

Values = dict[str, tuple[float, list[float]]]
"""Metric -> value of the corpus, values of the images."""


def tokenized(captions: Sequence[str]) -> list[str]:
    """Captions as its Java tokenizer and its list of punctuation leave them, words between blanks."""
    rows = {place: [{"caption": caption}] for place, caption in enumerate(captions)}
    found = PTBTokenizer().tokenize(rows)
    return [found[place][0] for place in range(len(captions))]


def python_metrics(captions: Sequence[str], references: Sequence[Sequence[str]]) -> Values:
    """BLEU, ROUGE-L and CIDEr-D (which it prints as CIDEr) of tokenized texts; no Java."""
    texts, hypotheses = _rows(captions, references)
    with contextlib.redirect_stdout(io.StringIO()):
        bleus, of_images = Bleu(4).compute_score(texts, hypotheses)
    values: Values = {
        name: (float(corpus), list(map(float, images)))
        for name, corpus, images in zip(BLEU, bleus, of_images, strict=True)
    }
    for name, scorer in (("ROUGE-L", Rouge()), ("CIDEr-D", Cider())):
        corpus, images = scorer.compute_score(texts, hypotheses)
        values[name] = (float(corpus), list(map(float, images)))
    return values


def meteor(captions: Sequence[str], references: Sequence[Sequence[str]]) -> Values:
    """METEOR of tokenized texts, by its Java program."""
    texts, hypotheses = _rows(captions, references)
    corpus, images = Meteor().compute_score(texts, hypotheses)
    return {"METEOR": (float(corpus), list(map(float, images)))}


def _rows(captions: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    return dict(enumerate(references)), {place: [caption] for place, caption in enumerate(captions)}
