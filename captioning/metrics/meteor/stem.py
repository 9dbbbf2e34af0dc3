"""The English Snowball stemmer ("Porter 2"; Porter, 2001), as METEOR 1.5 brings it along.

A word's R1 begins after its first consonant that follows a vowel, R2 likewise within R1; most suffixes go only
where they lie in one of them. A `Y` stands for a y that is a consonant.
"""

import re


def _pairs(text: str) -> dict[str, str]:
    return {ending: shorter for ending, _, shorter in (pair.partition(":") for pair in text.split())}


WHOLE_WORDS = _pairs("""
    skis:ski skies:sky dying:die lying:lie tying:tie idly:idl gently:gentl ugly:ugli early:earli only:onli
    singly:singl sky:sky news:news howe:howe atlas:atlas cosmos:cosmos bias:bias andes:andes
""")
"""Words that no rule touches, and their stems."""

KEPT_AFTER_PLURALS = {"inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"}
"""Words that stay as they are once a plural's ending is off."""

STEP_2 = _pairs("""
    ational:ate ization:ize fulness:ful ousness:ous iveness:ive tional:tion biliti:ble lessli:less entli:ent
    ation:ate alism:al aliti:al ousli:ous iviti:ive fulli:ful enci:ence anci:ance abli:able izer:ize ator:ate
    alli:al bli:ble
""")
STEP_3 = _pairs("ational:ate tional:tion alize:al icate:ic iciti:ic ical:ic ful: ness:")
STEP_4 = tuple(_pairs("ement ance ence able ible ment ant ent ism ate iti ous ive ize al er ic"))
"""Endings and what stands for them, longer ones first; of the first that a word has, nothing else is tried."""

_DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")
_REGION = re.compile(r".*?[aeiouy][^aeiouy](.*)", re.DOTALL)
_FIRST_REGION = re.compile(r"(?:gener|commun|arsen)(.*)", re.DOTALL)
_VOWEL = re.compile("[aeiouy]")
_SHORT = re.compile(r"(?:.*[^aeiouy][aeiouy][^aeiouywxY]|[aeiouy][^aeiouy])\Z", re.DOTALL)


def stem(word: str) -> str:
    """The word's stem; `word` is in lower case."""
    if len(word) <= 2:
        return word
    if word in WHOLE_WORDS:
        return WHOLE_WORDS[word]
    word = re.sub(r"\Ay|(?<=[aeiouy])y", "Y", word.removeprefix("'"))
    first = _FIRST_REGION.match(word) or _REGION.match(word)
    r1 = first.start(1) if first else len(word)
    second = _REGION.match(word, r1)
    r2 = second.start(1) if second else len(word)
    word = _without_plural(_without_genitive(word))
    if word in KEPT_AFTER_PLURALS:
        return word.lower()
    for step in (_without_past, _with_i, _shorter_suffix, _without_adjective, _without_suffix, _without_e):
        word = step(word, r1, r2)
    return word.lower()


def _without_genitive(word: str) -> str:
    for ending in ("'s'", "'s", "'"):
        if word.endswith(ending):
            return word.removesuffix(ending)
    return word


def _without_plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _VOWEL.search(word[:-2]):
        return word[:-1]
    return word


def _without_past(word: str, r1: int, r2: int) -> str:
    for ending in ("eedly", "eed"):
        if word.endswith(ending):
            return word.removesuffix(ending) + "ee" if len(word) - len(ending) >= r1 else word
    for ending in ("ingly", "edly", "ing", "ed"):
        if word.endswith(ending):
            rest = word.removesuffix(ending)
            return _repaired(rest, r1) if _VOWEL.search(rest) else word
    return word


def _repaired(word: str, r1: int) -> str:
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if word.endswith(_DOUBLES):
        return word[:-1]
    return word + "e" if r1 >= len(word) and _SHORT.match(word) else word


def _with_i(word: str, r1: int, r2: int) -> str:
    return re.sub(r"(?<=.[^aeiouy])[yY]\Z", "i", word, flags=re.DOTALL)


def _shorter_suffix(word: str, r1: int, r2: int) -> str:
    for ending, shorter in STEP_2.items():
        if word.endswith(ending):
            return word.removesuffix(ending) + shorter if len(word) - len(ending) >= r1 else word
    if word.endswith("ogi") and len(word) - 3 >= r1:
        return word[:-1] if word[-4:-3] == "l" else word
    if re.search(r"[cdeghkmnrt]li\Z", word) and len(word) - 2 >= r1:
        return word[:-2]
    return word


def _without_adjective(word: str, r1: int, r2: int) -> str:
    for ending, shorter in STEP_3.items():
        if word.endswith(ending):
            return word.removesuffix(ending) + shorter if len(word) - len(ending) >= r1 else word
    return word.removesuffix("ative") if word.endswith("ative") and len(word) - 5 >= r2 else word


def _without_suffix(word: str, r1: int, r2: int) -> str:
    for ending in STEP_4:
        if word.endswith(ending):
            return word.removesuffix(ending) if len(word) - len(ending) >= r2 else word
    if word.endswith(("sion", "tion")) and len(word) - 3 >= r2:
        return word[:-3]
    return word


def _without_e(word: str, r1: int, r2: int) -> str:
    if word.endswith("e"):
        place = len(word) - 1
        return word[:-1] if place >= r2 or (place >= r1 and not _SHORT.match(word[:-1])) else word
    return word[:-1] if word.endswith("ll") and len(word) - 1 >= r2 else word
