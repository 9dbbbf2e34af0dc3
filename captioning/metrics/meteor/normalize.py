"""METEOR's own tokenization ("-norm", for English), which it applies to captions that are tokenized already.

It cuts hyphenated words, takes clitics off their words, and decides which words keep a full stop. Nearly all
captions pass unchanged.
"""

import re
from collections.abc import Mapping

_ALPHA = "A-Za-zŠŽšžŸÀ-ÖØ-öø-žЀ-ӿԀ-ԧꙀ-ꙮ꙾-ꚗᴀ-ᵿ"
_ALNUM = "0-9" + _ALPHA
_PLAIN = re.compile(r"[a-z0-9 ]*")
_SPACES = re.compile("[ \u2000-\u200a\u202f\u205f\u3000\u00a0]+")

_WORD = re.compile(r"[^ \t\n\r\f]+")
_DOT = "\ue000"
"""Stands for a dot of several in a row, which stay together as one word."""

RULES = tuple(
    (re.compile(pattern, re.ASCII), replacement)
    for pattern, replacement in (
        (rf"([^{_ALNUM}\s.'`,\-‘’])", r" \1 "),
        (r"\.{2,}", lambda dots: f" {_DOT * len(dots[0])} "),
        (r"(\D),(\D)", r"\1 , \2"),
        (r"(\d),(\D)", r"\1 , \2"),
        (r"(\D),(\d)", r"\1 , \2"),
        ("[`‘’]", "'"),
        ("[“”]|''", ' " '),
        ("–|--", "-"),
        (rf"([{_ALNUM}.])-([{_ALNUM}])", r"\1 \2"),
        (rf"([^{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
        (rf"([^{_ALPHA}0-9])'([{_ALPHA}])", r"\1 ' \2"),
        (rf"([{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
        (rf"([{_ALPHA}])'([{_ALPHA}])", r"\1 '\2"),
        (r"(\d)'(s)", r"\1 '\2"),
    )
)
"""Pattern and replacement, one after the other over the whole line."""


def read_abbreviations(text: str) -> dict[str, bool]:
    """Word that keeps its full stop -> whether it does so before a number only; from the jar's list."""
    rows = [line.split() for line in text.split("\n")]
    return {row[0]: row[1:2] == ["#NUMERIC_ONLY#"] for row in rows if row and not row[0].startswith("#")}


def normalize(line: str, abbreviations: Mapping[str, bool]) -> list[str]:
    """The words that METEOR compares."""
    if _PLAIN.fullmatch(line):
        return line.split()
    line = f" {line} "
    for pattern, replacement in RULES:
        line = pattern.sub(replacement, line)
    words = _WORD.findall(line)
    following = [*words[1:], ""]
    line = " ".join(_with_full_stop(word, after, abbreviations) for word, after in zip(words, following, strict=True))
    return _WORD.findall(_SPACES.sub(" ", line.replace(_DOT, ".")).lower())


def _with_full_stop(word: str, after: str, abbreviations: Mapping[str, bool]) -> str:
    """The word with its last full stop kept, cut off, or lost with the dots inside (`u.s.` becomes `us`)."""
    if len(word) < 2 or not word.endswith("."):
        return word
    before = word[:-1]
    if "." in before and re.search(f"[{_ALPHA}]", before):
        return word.replace(".", "")
    only_before_number = abbreviations.get(before)
    if only_before_number is False or re.match("[a-z]", after):
        return word
    if only_before_number and re.match("[0-9]", after):
        return word
    return before + " ."
