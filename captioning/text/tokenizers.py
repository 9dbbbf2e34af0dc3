"""How captions become the words of a vocabulary and back: a tokenizer by its name in a config, kept with the captioner.

`word` is the one that metrics use too (`tokenize.py`). `character` suits languages without spaces; `subword` learns its
pieces from the training captions, so that no word is unknown whose letters are known.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from captioning.errors import CheckpointError, ConfigError
from captioning.text.characters import split_characters
from captioning.text.tokenize import join, tokenize

BLANK = "▁"
"""Stands for the blank before a piece of text, in the words of `character` and `subword`."""
DEFAULT_SUBWORDS = 4000
"""Pieces that `subword` learns at most where no number is given."""
_UNKNOWN_PIECE = "<unk>"


class Tokenizer(Protocol):
    """What a vocabulary asks of a tokenizer: `tokenize(join(words)) == words` for words that `tokenize` gave."""

    @property
    def name(self) -> str:
        """Its name in a config."""

    def tokenize(self, caption: str) -> list[str]:
        """The words of a caption, none of them empty."""

    def join(self, words: Sequence[str]) -> str:
        """A caption to print or store."""

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for JSON; `tokenizer_from` makes the same tokenizer of them."""


class WordTokenizer:
    """Penn Treebank words in lower case, without punctuation: what metrics compare."""

    name: ClassVar[str] = "word"

    def tokenize(self, caption: str) -> list[str]:
        return tokenize(caption)

    def join(self, words: Sequence[str]) -> str:
        return join(words)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name}


class CharacterTokenizer:
    """Characters as a reader counts them, case and punctuation kept; a blank is a word of its own, `BLANK`."""

    name: ClassVar[str] = "character"

    def tokenize(self, caption: str) -> list[str]:
        return [BLANK if character == " " else character for character in split_characters(_plain(caption))]

    def join(self, words: Sequence[str]) -> str:
        return "".join(words).replace(BLANK, " ")

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name}


class SubwordTokenizer:
    """Pieces by byte-pair encoding (Sennrich, Haddow and Birch, 2016), by the `tokenizers` package.

    A piece that begins a word begins with `BLANK`. Case and punctuation are kept.
    """

    name: ClassVar[str] = "subword"

    def __init__(self, model: str) -> None:
        """`model`: what the `tokenizers` package calls a tokenizer's JSON."""
        self._package = _tokenizers_package()
        self._model = model
        self._encoder = self._package.Tokenizer.from_str(model)

    @classmethod
    def train(cls, captions: Iterable[str], *, pieces: int, minimum_count: int) -> "SubwordTokenizer":
        """Learn at most `pieces` from captions; a pair that occurs less than `minimum_count` times is not joined."""
        package = _tokenizers_package()
        encoder = package.Tokenizer(package.models.BPE(unk_token=_UNKNOWN_PIECE))
        encoder.normalizer = package.normalizers.NFC()
        encoder.pre_tokenizer = package.pre_tokenizers.Metaspace(replacement=BLANK)
        encoder.decoder = package.decoders.Metaspace(replacement=BLANK)
        trainer = package.trainers.BpeTrainer(
            vocab_size=pieces, min_frequency=minimum_count, special_tokens=[_UNKNOWN_PIECE], show_progress=False
        )
        encoder.train_from_iterator((_plain(caption) for caption in captions), trainer)
        return cls(encoder.to_str())

    @property
    def pieces(self) -> list[str]:
        """What the vocabulary is made of, in the order of learning."""
        by_piece = self._encoder.get_vocab()
        return [piece for piece in sorted(by_piece, key=by_piece.__getitem__) if piece != _UNKNOWN_PIECE]

    def tokenize(self, caption: str) -> list[str]:
        pieces: list[str] = self._encoder.encode(_plain(caption)).tokens
        return pieces

    def join(self, words: Sequence[str]) -> str:
        return str(self._encoder.decoder.decode(list(words)))

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "model": self._model}

    def __reduce__(self) -> tuple[type["SubwordTokenizer"], tuple[str]]:
        return SubwordTokenizer, (self._model,)


NAMES = (WordTokenizer.name, CharacterTokenizer.name, SubwordTokenizer.name)
WORDS = WordTokenizer()
"""The tokenizer of a vocabulary that names none."""


def tokenizer_from(values: Mapping[str, Any] | None) -> Tokenizer:
    """The tokenizer that `to_dict` told of; None: `WORDS`. Raises CheckpointError for one that is not known."""
    name = WordTokenizer.name if values is None else values.get("name")
    if name == WordTokenizer.name:
        return WORDS
    if name == CharacterTokenizer.name:
        return CharacterTokenizer()
    if values is None or name != SubwordTokenizer.name:
        raise CheckpointError(f"tokenizer: expected one of {', '.join(NAMES)}, got {name!r}")
    try:
        return SubwordTokenizer(values["model"])
    except ConfigError:
        raise
    except Exception as error:  # the package raises plain Exception for a model that it can't read
        raise CheckpointError(f"tokenizer subword: its model can't be read ({error})") from error


def make_tokenizer(name: str, captions: Iterable[str], *, pieces: int | None, minimum_count: int) -> Tokenizer:
    """The tokenizer of that name; `subword` learns from `captions`. Raises ConfigError for an unknown name."""
    if name == SubwordTokenizer.name:
        return SubwordTokenizer.train(captions, pieces=pieces or DEFAULT_SUBWORDS, minimum_count=minimum_count)
    if name not in NAMES:
        raise ConfigError(f"tokenizer: expected one of {', '.join(NAMES)}, got {name!r}")
    return tokenizer_from({"name": name})


def _plain(caption: str) -> str:
    """In composed form, single blanks between words and none around them."""
    return " ".join(unicodedata.normalize("NFC", caption).split())


def _tokenizers_package() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise ConfigError(
            "tokenizer subword: the package tokenizers is not installed; pip install 'captioning[subwords]'"
        ) from error
    return tokenizers
