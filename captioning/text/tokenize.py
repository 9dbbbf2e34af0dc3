"""One tokenizer for training, reward and scoring: the Penn Treebank style of the COCO caption scorer.

Rules are data (`RULES`, tried from the top at each place) and become one regular expression; whatever no rule
matches (full stops, commas, quotes, dashes) is dropped, as that scorer drops it. Case is folded, text is brought to
NFC, curly apostrophes become straight, and a word of the result is again one word when it is tokenized:
`tokenize(join(words)) == words`.

Known differences from that scorer, all deliberate: a fraction after a number stays a word of its own (there the two
hang together by a non-breaking space); emoji and currency signs are kept; runs of `!` and `?`, punctuation of other
scripts and the parts of emoticons are dropped. Scripts written without spaces are not segmented.
"""

import re
import unicodedata
from collections.abc import Sequence

ABBREVIATIONS = """
adj adm adv al ala alex apr ariz assn assoc asst atty attys aug ave bancorp bhd bldg blvd brig bros calif capt cf cie
cmdr co col colo comdr conn corp cos cpl ct dak dec dept det dr drs elec ens esq est etc ext feb fla fri ft ga gen gov
govs hon inc ind insp intl invt jan jos jr jul jun kan kans ky lieut lt ltd maj mar md messrs mfg mich minn mlle mme mo
mon mont mr mrs ms msgr mt mtg natl neb nev nov oct okla penn pfc ph plc pres prof profs pte pty ptys pvt rd rep reps
rev rt sen sens sep sept seq sfc sgt spc sq sr st ste supt supts sys tel tenn thu thurs treas tue tues univ va vs vt
wed wis wisc wm wyo
""".split()
"""Words that keep their full stop wherever they stand."""

ABBREVIATIONS_OF_NUMBERS = "art ca fig figs no nos op pp prop".split()
"""Words that keep their full stop before a number only (`no. 5`)."""

ASSIMILATIONS = {"can": "not", "gim": "me", "gon": "na", "got": "ta", "lem": "me", "wan": "na"}
"""Two words written as one: they are cut after the first."""

SPELLED_OUT = {
    **dict.fromkeys("\u2018\u2019\u201b\u02bc\u0092", "'"),
    **dict.fromkeys("\u2010\u2011", "-"),
    "\u2026": "...",
    "\u00bd": " 1/2 ",
    "\u00bc": " 1/4 ",
    "\u00be": " 3/4 ",
    "\u2044": "/",
    "(": " -lrb- ",
    ")": " -rrb- ",
    "[": " -lsb- ",
    "]": " -rsb- ",
    "{": " -lcb- ",
    "}": " -rcb- ",
}
"""Characters that are replaced before the rules are tried; brackets become the treebank's words for them."""

_BRACKETS = {word.strip(): bracket for bracket, word in SPELLED_OUT.items() if word.endswith("b- ")}
_JOINERS = "\u200c\u200d"
_SYMBOLS = "\u00a2-\u00a9\u00ac\u00ae-\u00b4\u00b8\u00b9\u00d7\u00f7\u20a0-\u20cf\u2100-\u2bff\U0001f000-\U0001faff"
_LETTER = rf"[a-z]|[^\x00-\x7f{_SYMBOLS}]"
_L = rf"(?:{_LETTER})"
_D = rf"(?:[0-9]|{_LETTER})"
_END = rf"(?!{_D})"
_PICTURE = rf"[{_SYMBOLS}][\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]*"
_PART = rf"(?:[dol]'(?={_D}))?{_D}+"

RULES = {
    "plain word": rf"(?!(?:{'|'.join(a + b for a, b in ASSIMILATIONS.items())})\b)[a-z]+(?=\s|\Z)",
    "web address": r"https?://[^\s\"<>|]*[^\s\"<>|'.!?,-]",
    "mail address": r"[a-z0-9][^\s\"<>|@]*@[^\s\"<>|@.,!?']+(?:\.[^\s\"<>|@.,!?']+)*",
    "mark-up": r"</?[a-z][^<>\s]*>",
    "bracket": r"-[lr][rsc]b-",
    "assimilation": "|".join(rf"{a}(?={b}{_END})" for a, b in ASSIMILATIONS.items()) + rf"|more(?='n{_END})",
    "negation": rf"n't{_END}|{_L}+?(?=n't{_END})",
    "clitic": rf"'(?:[smd]|re|ve|ll){_END}",
    "'tis": rf"'t(?=(?:is|was){_END})|'t{_END}",
    "cut at the front": rf"'(?:n'|n{_END}|em{_END}|til{_END}|cause{_END}|[0-9]0s{_END}|[0-9][0-9]{_END})",
    "french article": rf"d'ye{_END}|[yj]'(?={_L}{{2}})|ol'{_END}",
    "abbreviation": rf"(?:{'|'.join(ABBREVIATIONS)})\.{_END}",
    "abbreviation of a number": rf"(?:{'|'.join(ABBREVIATIONS_OF_NUMBERS)})\.(?=\s*[0-9])",
    "initials": rf"[a-z](?:\.[a-z])*\.{_END}",
    "vowels around an apostrophe": rf"{_L}*[aeiouy]'[aeiou]{_L}*",
    "letters around an ampersand": rf"[a-z]&[a-z]",
    "slashed": rf"{_D}+(?:-{_L}+){{0,2}}(?:/{_D}+(?:-{_L}+){{0,2}}){{1,2}}",
    "hyphenated": rf"{_PART}(?:-{_PART})+",
    "number": rf"[-+]?[0-9]+(?:[.,:][0-9]+)+{_END}|[-+][0-9]+{_END}|[.,:][0-9]+{_END}",
    "word": rf"{_L}{_D}*(?:[.!?]{_L}{_D}*)+|{_PART}|_*{_D}+(?:_+{_D}*)+",
    "tag": rf"[#@]{_L}(?:{_D}|_)*",
    "picture": rf"[\U0001f1e6-\U0001f1ff]{{2}}|{_PICTURE}(?:\u200d{_PICTURE})*",
    "symbol": r"\*+|_+|[#$%&+=~^|\\/<>@]",
}
"""Name -> regular expression over lower-case text; the first that matches takes the word."""

_WORD = re.compile(r"\s*(" + "|".join(RULES.values()) + ")")


class _Cleaning(dict[int, str]):
    """For `str.translate`: spells out, keeps letters and symbols, makes foreign punctuation and controls spaces."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = unicodedata.category(character)
        if character in SPELLED_OUT:
            text = SPELLED_OUT[character]
        elif kind == "Cf" and character not in _JOINERS and not 0xE0020 <= code <= 0xE007F:
            text = ""
        elif code < 0x80 and not kind.startswith("C"):
            text = character
        else:
            text = " " if kind[0] in "PZC" and kind != "Cf" else character
        self[code] = text
        return text


_CLEANING = _Cleaning()


def tokenize(caption: str) -> list[str]:
    """The words of a caption, in lower case and without punctuation: `A dog's T-shirt.` -> a, dog, 's, t-shirt."""
    text = caption if caption.isascii() else unicodedata.normalize("NFC", caption)
    text = text.lower().translate(_CLEANING)
    return _WORD.findall(text)


def join(words: Sequence[str]) -> str:
    """A caption to print or store; `tokenize` gives the same words again."""
    return " ".join(_BRACKETS.get(word, word) for word in words)
