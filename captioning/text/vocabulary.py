"""Which word has which number: fixed when training begins, saved with the model, never rebuilt."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from captioning.errors import CheckpointError, DataError
from captioning.text.tokenizers import WORDS, Tokenizer

PAD, START, END, UNKNOWN = 0, 1, 2, 3
SPECIAL_WORDS = ("<pad>", "<start>", "<end>", "<unk>")
"""The first four words of every vocabulary, in the order of PAD, START, END, UNKNOWN."""


class Vocabulary:
    """V words in a frozen order; the first four are the special words. Its tokenizer makes words of captions.

    A caption that spells a special word itself ("<end>") does not get its meaning: the word becomes UNKNOWN.
    """

    def __init__(self, words: Sequence[str], tokenizer: Tokenizer = WORDS) -> None:
        if tuple(words[: len(SPECIAL_WORDS)]) != SPECIAL_WORDS:
            raise DataError(
                f"vocabulary: expected {', '.join(SPECIAL_WORDS)} as the first words, "
                f"got {list(words[: len(SPECIAL_WORDS)])}; make one from captions with Vocabulary.build"
            )
        repeated = [word for word, count in Counter(words).items() if count > 1]
        if repeated:
            raise DataError(f"vocabulary: every word must occur once, but {repeated[:3]} occur more often")
        self.words: tuple[str, ...] = tuple(words)
        self.tokenizer = tokenizer
        self._ids = {word: index for index, word in enumerate(self.words) if index >= len(SPECIAL_WORDS)}

    @classmethod
    def build(
        cls,
        captions: Iterable[Sequence[str]],
        *,
        minimum_count: int = 5,
        maximum_size: int | None = None,
        tokenizer: Tokenizer = WORDS,
    ) -> "Vocabulary":
        """The words of tokenized training captions, by falling count, then by text.

        `maximum_size` counts the special words too. Give the training split only: words of other splits would
        leak into the model.
        """
        counts = Counter(word for caption in captions for word in caption)
        frequent = [word for word, count in counts.items() if count >= minimum_count and word not in SPECIAL_WORDS]
        frequent.sort(key=lambda word: (-counts[word], word))
        return cls([*SPECIAL_WORDS, *frequent][:maximum_size], tokenizer)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def __getitem__(self, word: str) -> int:
        """The word's number, UNKNOWN for a word that is not in the vocabulary."""
        return self._ids.get(word, UNKNOWN)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words, {self.fingerprint()[:12]})"

    def tokenize(self, caption: str) -> list[str]:
        """The words of a caption, by the vocabulary's tokenizer."""
        return self.tokenizer.tokenize(caption)

    def join(self, words: Sequence[str]) -> str:
        """A caption to print or store."""
        return self.tokenizer.join(words)

    def encode(self, words: Iterable[str]) -> list[int]:
        """START, the words' numbers, END."""
        return [START, *(self[word] for word in words), END]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The words up to END, without START and PAD; UNKNOWN stays visible as its word."""
        words = []
        for index in ids:
            if index == END:
                break
            if index not in (START, PAD):
                words.append(self.words[index])
        return words

    def fingerprint(self) -> str:
        """SHA-256 of the words in their order, in hexadecimal: equal only for equal vocabularies."""
        return hashlib.sha256(json.dumps(self._identity()).encode()).hexdigest()

    def _identity(self) -> Sequence[Any]:
        """The words, and the tokenizer where it is another one than that of words."""
        return self.words if self.tokenizer.name == WORDS.name else (self.words, self.tokenizer.to_dict())

    def to_list(self) -> list[str]:
        """The words in their order, for JSON."""
        return list(self.words)

    @classmethod
    def from_list(cls, words: Sequence[str], tokenizer: Tokenizer = WORDS) -> "Vocabulary":
        """The vocabulary that `to_list` wrote."""
        return cls(words, tokenizer)

    def check_same(self, other: "Vocabulary") -> None:
        """Raises CheckpointError with both sizes and the first word that differs, unless `other` is equal."""
        if difference := self.first_difference(other):
            raise CheckpointError(
                f"vocabulary: the checkpoint has another one than is given, {difference}. "
                "Leave the other one out: the checkpoint brings its own."
            )

    def first_difference(self, other: "Vocabulary") -> str:
        """Both sizes and the first word that differs, to print; empty if they are equal."""
        if self == other:
            return ""
        if self.words == other.words:
            return f"a {self.tokenizer.name} tokenizer of its own against another {other.tokenizer.name} one"
        pairs = zip(self.words, other.words, strict=False)
        first = next((index for index, (mine, theirs) in enumerate(pairs) if mine != theirs), None)
        if first is None:
            first = min(len(self), len(other))
        return (
            f"{len(self)} words (fingerprint {self.fingerprint()[:12]}) against {len(other)} "
            f"({other.fingerprint()[:12]}); they differ first at number {first} "
            f"({self._quoted(first)} against {other._quoted(first)})"
        )

    def _quoted(self, index: int) -> str:
        return f'"{self.words[index]}"' if index < len(self) else "no word"
