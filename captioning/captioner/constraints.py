"""What a search's settings ask of captions, from words to their numbers."""

from difflib import get_close_matches

from captioning.decoding.constraints import Constraints
from captioning.decoding.search import Search
from captioning.errors import ConfigError
from captioning.text.vocabulary import END, PAD, START, UNKNOWN, Vocabulary

FORBIDDEN = (PAD, START, UNKNOWN)
"""What no caption says unless a search asks for it."""


def constraints_of(search: Search, vocabulary: Vocabulary) -> Constraints:
    """The constraints of these settings. Raises ConfigError for a word to be said that the vocabulary lacks.

    A word that may not be said, or dangles, need not be in the vocabulary: then it is not said anyway.
    """
    never = FORBIDDEN[:2] if search.unknown_word else FORBIDDEN
    return Constraints(
        end=END,
        maximum_length=search.maximum_length,
        minimum_length=search.minimum_length,
        forbidden=(*never, *_known(search.banned_words, vocabulary)),
        no_repeat_ngram=search.no_repeat_ngram,
        dangling=_known(search.dangling_words, vocabulary) if search.no_dangling_end else (),
        must_include=_sayable("must_include", search.must_include, vocabulary),
        beginning=_sayable("beginning", search.beginning, vocabulary),
        name_of=vocabulary.words.__getitem__,
    )


def _known(text: str, vocabulary: Vocabulary) -> tuple[int, ...]:
    return tuple(vocabulary[word] for word in vocabulary.tokenize(text) if word in vocabulary)


def _sayable(name: str, text: str, vocabulary: Vocabulary) -> tuple[int, ...]:
    words = vocabulary.tokenize(text)
    for word in words:
        if word not in vocabulary:
            near = get_close_matches(word, vocabulary.words, n=3)
            way_out = f"; near it are {', '.join(near)}" if near else ""
            raise ConfigError(
                f"{name}: expected words of the vocabulary, got {word!r}, which it does not have{way_out}"
            )
    return tuple(vocabulary[word] for word in words)
