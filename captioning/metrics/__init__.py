"""Caption metrics without Java: BLEU, ROUGE-L, CIDEr-D."""

from captioning.metrics.cider import CiderD, CiderPlain, DocumentFrequencies
from captioning.metrics.suite import DEFAULT, Scorer, Scores, score

__all__ = ["DEFAULT", "CiderD", "CiderPlain", "DocumentFrequencies", "Scorer", "Scores", "score"]
