"""How captions of different lengths are compared: score = Σ_t log p(y_t) / penalty(n).

n counts the words and END. A penalty is positive and does not fall as n grows; since no log-probability is
above zero, an open caption of sum S can then reach at most S / penalty(longest length), which is what lets a
search stop.
"""

from collections.abc import Callable

from captioning.errors import ConfigError

LengthPenalty = Callable[[int], float]


def none(_length: int) -> float:
    """1: the log-probability itself. It favours short captions, since every word can only lower it."""
    return 1.0


def average(length: int) -> float:
    """n: the mean log-probability a word."""
    return float(length)


def wu(length: int, *, alpha: float = 0.7) -> float:
    """(5 + n)^α / 6^α of Wu et al., 2016 (arXiv 1609.08144), section 7; α = 0 is `none`, α ≥ 0."""
    return float(((5 + length) / 6) ** alpha)


RANKINGS: dict[str, LengthPenalty] = {"none": none, "average": average, "wu": wu}


def length_penalty(ranking: str | LengthPenalty) -> LengthPenalty:
    """The penalty of that name; a function is taken as it is (`functools.partial(wu, alpha=1.0)`)."""
    if callable(ranking):
        return ranking
    if ranking not in RANKINGS:
        raise ConfigError(f"ranking: expected one of {', '.join(RANKINGS)} or a function, got {ranking!r}")
    return RANKINGS[ranking]
