"""What a caption may be like: constraints on the next word by the words said so far, which combine.

Each sets the log-probability of what may not come next to −∞ and leaves the others as they are: they are *not*
renormalised. So the log-probabilities that a search reports are the model's own, and teacher forcing gives them again.
All of them work in place on one copy, for all hypotheses at once, so each costs about as much as it forbids.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from captioning.errors import ConfigError


class Constraint(Protocol):
    """One thing that captions must obey."""

    def forbid(self, allowed: Tensor, said: Tensor) -> None:
        """Set what may not come next after `said` (B, K, t) to −∞ in `allowed` (B, K, V), in place."""


@dataclass(frozen=True)
class Never:
    """These words are not said."""

    words: tuple[int, ...]

    def forbid(self, allowed: Tensor, said: Tensor) -> None:
        """At every step."""
        allowed.index_fill_(-1, _index(self.words, said), -torch.inf)


@dataclass(frozen=True)
class AtLeast:
    """END does not come before `length` words."""

    end: int
    length: int

    def forbid(self, allowed: Tensor, said: Tensor) -> None:
        """END, as long as the caption is too short."""
        if said.shape[-1] < self.length:
            allowed[..., self.end] = -torch.inf


@dataclass(frozen=True)
class NoRepeat:
    """No `size` words in a row are said twice; size 1: no word twice."""

    size: int

    def forbid(self, allowed: Tensor, said: Tensor) -> None:
        """What followed the present last size − 1 words before."""
        length = said.shape[-1]
        if length < self.size:
            return
        ngrams = said.unfold(-1, self.size, 1)  # (B, K, t − size + 1, size)
        latest = said[..., length - self.size + 1 :].unsqueeze(-2)
        repeats = (ngrams[..., :-1] == latest).all(-1)
        loss = torch.zeros(repeats.shape, dtype=allowed.dtype, device=allowed.device).masked_fill_(repeats, -torch.inf)
        allowed.scatter_add_(-1, ngrams[..., -1], loss)


@dataclass(frozen=True)
class NoEndAfter:
    """END does not follow these words."""

    end: int
    words: tuple[int, ...]

    def forbid(self, allowed: Tensor, said: Tensor) -> None:
        """END where the latest word is one of them."""
        if said.shape[-1]:
            dangles = torch.isin(said[..., -1], _index(self.words, said))
            allowed[..., self.end].masked_fill_(dangles, -torch.inf)


@dataclass(frozen=True)
class BeginWith:
    """The first words are these."""

    words: tuple[int, ...]

    def forbid(self, allowed: Tensor, said: Tensor) -> None:
        """All but the word whose turn it is."""
        if said.shape[-1] < len(self.words):
            word = self.words[said.shape[-1]]
            kept = allowed[..., word].clone()
            allowed.fill_(-torch.inf)
            allowed[..., word] = kept


@dataclass(frozen=True)
class EndOnlyAfter:
    """END does not come before each of these words was said."""

    end: int
    words: tuple[int, ...]

    def forbid(self, allowed: Tensor, said: Tensor) -> None:
        """END where one of them is missing."""
        allowed[..., self.end].masked_fill_(missing(self.words, said).any(-1), -torch.inf)


def missing(words: tuple[int, ...], said: Tensor) -> Tensor:
    """Which of C words do not stand in `said` (..., t) -> (..., C) boolean."""
    return ~(said.unsqueeze(-1) == _index(words, said)).any(-2)


def _index(words: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.tensor(words, device=like.device, dtype=torch.int64)


@dataclass(frozen=True)
class Constraints:
    """All that a search's captions must obey, in word numbers. Raises ConfigError for what can't be met together."""

    end: int
    """The word that ends a caption."""
    maximum_length: int
    """Most choices a caption may take, END being one; what has not ended by then is cut off."""
    minimum_length: int = 0
    """Fewest words before END."""
    forbidden: tuple[int, ...] = ()
    """Never chosen, at any step."""
    no_repeat_ngram: int = 0
    """So many words in a row are not said twice; 0: anything may be repeated."""
    dangling: tuple[int, ...] = ()
    """END does not follow these."""
    must_include: tuple[int, ...] = ()
    """Every ended caption says each of these. Only a search that keeps hypotheses for them finds such captions
    (`banks.py`)."""
    beginning: tuple[int, ...] = ()
    """Every caption begins with these."""
    name_of: Callable[[int], str] = field(default=str, compare=False)
    """How a message calls a word."""

    def __post_init__(self) -> None:
        if self.end in self.forbidden:
            raise ConfigError(f"forbidden: expected words other than END ({self.end}), got {self.forbidden}")
        if not 0 <= self.minimum_length < self.maximum_length:
            raise ConfigError(
                "lengths: expected 0 <= minimum_length < maximum_length, "
                f"got minimum_length {self.minimum_length} and maximum_length {self.maximum_length}"
            )
        if self.no_repeat_ngram < 0:
            raise ConfigError(f"no_repeat_ngram: expected a number >= 0, got {self.no_repeat_ngram}")
        object.__setattr__(self, "must_include", tuple(dict.fromkeys(self.must_include)))
        for name in ("beginning", "must_include"):
            self._check_sayable(name, getattr(self, name))
        self._check_room()
        self._check_beginning()

    @property
    def asked(self) -> list[Constraint]:
        """One for each thing that is asked for."""
        pairs: list[tuple[object, Constraint]] = [
            (self.forbidden, Never(self.forbidden)),
            (self.minimum_length, AtLeast(self.end, self.minimum_length)),
            (self.no_repeat_ngram, NoRepeat(self.no_repeat_ngram)),
            (self.dangling, NoEndAfter(self.end, self.dangling)),
            (self.must_include, EndOnlyAfter(self.end, self.must_include)),
            (self.beginning, BeginWith(self.beginning)),
        ]
        return [constraint for is_asked, constraint in pairs if is_asked]

    def apply(self, log_probabilities: Tensor, said: Tensor) -> Tensor:
        """(B, K, V) of the word after `said` (B, K, t) -> the same with −∞ at what may not be chosen."""
        asked = self.asked
        if not asked:
            return log_probabilities
        allowed = log_probabilities.clone()
        for constraint in asked:
            constraint.forbid(allowed, said)
        return allowed

    def _check_sayable(self, name: str, words: tuple[int, ...]) -> None:
        for word in words:
            if word in (*self.forbidden, self.end):
                raise ConfigError(f"{name}: expected words that may be said, got {self.name_of(word)!r}, which may not")

    def _check_room(self) -> None:
        needed = len(self.beginning) + sum(word not in self.beginning for word in self.must_include) + 1
        if (self.beginning or self.must_include) and needed > self.maximum_length:
            raise ConfigError(
                f"maximum_length: expected at least {needed}, for the words of beginning and must_include and the end, "
                f"got {self.maximum_length}"
            )

    def _check_beginning(self) -> None:
        size = self.no_repeat_ngram
        ngrams = [self.beginning[i : i + size] for i in range(len(self.beginning) - size + 1)] if size else []
        if len(set(ngrams)) < len(ngrams):
            raise ConfigError(
                f"beginning: expected no {size} words in a row twice (no_repeat_ngram), "
                f"got {' '.join(map(self.name_of, self.beginning))!r}"
            )
