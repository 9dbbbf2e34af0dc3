"""Caption metrics without Java: BLEU, METEOR, ROUGE-L, CIDEr-D."""

from captioning.metrics.cider import CiderD, CiderPlain
from captioning.metrics.frequencies import DocumentFrequencies
from captioning.metrics.suite import DEFAULT, Scorer, Scores, score

__all__ = ["DEFAULT", "CiderD", "CiderPlain", "DocumentFrequencies", "Scorer", "Scores", "score"]
