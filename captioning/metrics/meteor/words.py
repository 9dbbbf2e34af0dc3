"""What METEOR knows of a word: its stem, its synonyms, whether it carries content."""

from collections.abc import Iterable
from functools import cached_property

from captioning.metrics.meteor.normalize import normalize, read_abbreviations
from captioning.metrics.meteor.stem import stem
from captioning.metrics.meteor.tables import Tables

INFLECTIONS = (
    *(("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man")),
    *(("ies", "y"), ("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e")),
    *(("ing", ""), ("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
)
"""WordNet's endings and what stands for them in the base form, in the order in which they are tried."""


class Words:
    """Looks words up; what was found is kept."""

    def __init__(self, tables: Tables) -> None:
        self.function_words = frozenset(tables.lists["function_words"].split("\n"))
        self._abbreviations = read_abbreviations(tables.lists["abbreviations"])
        self._synsets = _pairs_of_lines(tables.lists["synsets"])
        self._exceptions = tables.lists["exceptions"]
        self._stems: dict[str, str] = {}
        self._synonyms: dict[str, frozenset[str]] = {}

    def cut(self, caption: str) -> list[str]:
        """A tokenized caption -> the words that METEOR compares."""
        return normalize(caption, self._abbreviations)

    def stem(self, word: str) -> str:
        """The word's stem."""
        if word not in self._stems:
            self._stems[word] = stem(word)
        return self._stems[word]

    def synsets(self, word: str) -> frozenset[str]:
        """WordNet's sets of synonyms that the word or its base form is in."""
        if word not in self._synonyms:
            bases = self._bases.get(word) or [self._base(word)]
            self._synonyms[word] = frozenset(self._look_up([word, *bases]))
        return self._synonyms[word]

    @cached_property
    def _bases(self) -> dict[str, list[str]]:
        """Irregular form -> its base forms."""
        bases: dict[str, list[str]] = {}
        for base, forms in _pairs_of_lines(self._exceptions).items():
            for form in forms.split():
                bases.setdefault(form, []).append(base)
        return bases

    def _look_up(self, words: Iterable[str]) -> Iterable[str]:
        return (synset for word in words for synset in self._synsets.get(word, "").split())

    def _base(self, word: str) -> str:
        """The base form that WordNet knows of a regular form, or no word."""
        if word.endswith("ss") or len(word) <= 2:
            return word
        tail = "ful" if word.endswith("ful") else ""
        for ending, stands_for in INFLECTIONS:
            if word.endswith(ending):
                base = word.removesuffix(ending) + stands_for
                if base in self._synsets:
                    return base + tail
        return ""


def _pairs_of_lines(text: str) -> dict[str, str]:
    lines = text.split("\n")
    return dict(zip(lines[::2], lines[1::2], strict=False))
