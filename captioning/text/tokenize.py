"""One tokenizer for training, reward and scoring: the Penn Treebank style of the COCO caption scorer.

Rules are data (`RULES`, tried from the top at each place) and become one regular expression; whatever no rule
matches (full stops, commas, quotes, dashes) is dropped, as that scorer drops it. Letters become lower case,
text is brought to NFC, curly apostrophes become straight, and `tokenize(join(words)) == words` for the words
that `tokenize` gave.

Differences from that scorer, all deliberate:

- a fraction after a number stays a word of its own (there, both hang together by a non-breaking space);
- emoji, joined ones whole, and currency signs are kept;
- runs of `!` and `?`, punctuation of other scripts and the signs of emoticons are dropped;
- any word keeps its full stop before a comma or semicolon there, here only an abbreviation does;
- a rule that asks for capitals there holds for both cases here, or for none: `r&b` is one word, `la.` loses
  its full stop;
- a caption is cut alike whatever comes after it in a file.

Scripts that are written without spaces are not segmented.
"""

import re
import unicodedata
from collections.abc import Sequence

ABBREVIATIONS = """
    adj adm adv al ala alex apr ariz assn assoc asst atty attys aug ave bancorp bhd bldg blvd brig bros
    calif capt cf cie cmdr co col colo comdr conn corp cos cpl ct dak dec dept det dr drs elec ens esq est
    etc ext feb fla fri ft ga gen gov govs hon inc ind insp intl invt jan jos jr jul jun kan kans ky lieut
    lt ltd maj mar md messrs mfg mich minn mlle mme mo mon mont mr mrs ms msgr mt mtg natl neb nev nov oct
    okla penn pfc ph plc pres prof profs pte pty ptys pvt rd rep reps rev rt sen sens sep sept seq sfc sgt
    spc sq sr st ste supt supts sys tel tenn thu thurs treas tue tues univ va vs vt wed wis wisc wm wyo
"""
"""Words that keep their full stop wherever they stand."""

NUMBER_ABBREVIATIONS = "art ca fig figs no nos op pp prop"
"""Words that keep their full stop before a number only (`no. 5`)."""

SENTENCE_STARTS = """
    A About According After An As At But He Her Here However If In It Last Many More Now Once One Other Our
    She Since So Some Such That The Their Then There These They This We What When While Yet You
"""
"""Words that, after a single letter and a full stop, tell that the full stop ended a sentence."""

ASSIMILATIONS = {"can": "not", "gim": "me", "gon": "na", "got": "ta", "lem": "me", "wan": "na"}
"""Two words written as one: they are cut after the first."""

BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
"""The treebank's words for brackets."""

SPELLINGS = {
    **dict.fromkeys("\u2018\u2019\u201b\u02bc\u0092", "'"),
    **dict.fromkeys("\u2010\u2011", "-"),
    **{bracket: f" {word} " for bracket, word in BRACKETS.items()},
    "\u2026": "...",
    "\u2044": "/",
    "\u00bc": " 1/4 ",
    "\u00bd": " 1/2 ",
    "\u00be": " 3/4 ",
}
"""Characters that are spelled otherwise before any rule is tried."""

_SYMBOL = "[\u00a2-\u00a9\u00ac\u00ae-\u00b4\u00b8\u00b9\u00d7\u00f7\u20a0-\u20cf\u2100-\u2bff\U0001f000-\U0001faff]"
_LETTER = rf"(?:[a-z]|(?!{_SYMBOL})[^\x00-\x7f])"
_SIGN = rf"(?:[0-9]|{_LETTER})"
_END = rf"(?!{_SIGN})"
_PICTURE = rf"{_SYMBOL}[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]*"
_PART = rf"(?:[dol]'(?!(?:re|ve|ll){_END})(?={_SIGN}{{2}}))?{_SIGN}+"


def _any_of(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


_ASSIMILATED = _any_of(" ".join(first + second for first, second in ASSIMILATIONS.items()))

RULES = {
    "plain word": rf"(?!{_ASSIMILATED}\b)[a-z]+(?!\S)",
    "web address": r"https?://[^\s\"<>|]*[^\s\"<>|'.!?,-]",
    "mail address": r"[a-z0-9][^\s\"<>|@]{0,63}@[^\s\"<>|@.,!?']+(?:\.[^\s\"<>|@.,!?']+)*",
    "mark-up": r"</?[a-z][^<>\s]*>",
    "bracket": _any_of(" ".join(BRACKETS.values())),
    "assimilation": "|".join(rf"{a}(?={b}{_END})" for a, b in [*ASSIMILATIONS.items(), ("more", "'n")]),
    "negation": rf"n't{_END}|(?!{_ASSIMILATED}n't){_LETTER}*?(?!n){_LETTER}(?=n't{_END})",
    "clitic": rf"'(?:[smd]|re|ve|ll){_END}",
    "'tis": rf"'t(?=(?:is|was){_END})|(?<!\S)'t(?!\S)",
    "cut in front": rf"'(?:n'|(?:n|em|til|cause|[0-9]0s){_END}|[0-9][0-9](?!'|{_SIGN}))",
    "cut inside": rf"(?:d'ye|c'mon|ol'){_END}|(?<!')\b[yj]'(?={_LETTER}{{2}}|\s|\Z)",
    "abbreviation": rf"{_any_of(ABBREVIATIONS)}\.{_END}|{_any_of(NUMBER_ABBREVIATIONS)}\.(?=\s*[0-9])",
    "initials": rf"[a-z](?:\.[a-z])*\.{_END}",
    "vowels around an apostrophe": rf"{_LETTER}+[aeiouy]'[aeiou]{_LETTER}*",
    "letters around an ampersand": rf"[a-z]&[a-z](?=s?{_END})",
    "slashed": rf"{_SIGN}+(?:-{_LETTER}+){{0,2}}(?:/{_SIGN}+(?:-{_LETTER}+){{0,2}}){{1,2}}",
    "hyphenated": rf"{_PART}(?:-{_PART})+",
    "number": rf"[-+]?[0-9]+(?:[.,:][0-9]+)+|(?<![-+.,:])[-+.,:][0-9]+{_END}",
    "word": rf"{_LETTER}{_SIGN}*(?:[.!?]{_LETTER}{_SIGN}*)+|{_SIGN}+(?:_+{_SIGN}+)+|{_PART}",
    "tag": rf"[#@]{_LETTER}(?:{_SIGN}|_)*",
    "picture": rf"[\U0001f1e6-\U0001f1ff]{{2}}|{_PICTURE}(?:\u200d{_PICTURE})*",
    "symbol": r"\*+|_+|[#$%&+=~^|\\/<>@]",
}
"""Name -> regular expression for lower-case text; the first that matches takes the word."""

_WORD = re.compile(rf"\s*({'|'.join(RULES.values())})")
_PLAIN = re.compile(r"[A-Za-z ,]*[ .]*")
_CUT_WORDS = frozenset(first + second for first, second in ASSIMILATIONS.items())
_DOTTED_WORDS = frozenset(ABBREVIATIONS.split())
_SENTENCE_END = re.compile(
    rf"\.(?:(?<=[^\w.'&-][A-Za-z]\.)|(?<=\A[A-Za-z]\.))(?=\s+{_any_of(SENTENCE_STARTS)}(?!\S))"
    r"|\.(?<=[^\w.'&-][A-Z]\.)(?=\s*\Z)"
)


class _Spelling(dict[int, str]):
    """A table for `str.translate`, filled as characters come; foreign punctuation becomes spaces."""

    def __missing__(self, code: int) -> str:
        self[code] = spelled = self._spell(chr(code))
        return spelled

    @staticmethod
    def _spell(character: str) -> str:
        category = unicodedata.category(character)
        if character in SPELLINGS:
            return SPELLINGS[character]
        if character in "\u200c\u200d" or "\U000e0020" <= character <= "\U000e007f":
            return character  # they join the parts of one word or one emoji
        if category == "Cf":
            return ""
        is_word = category[0] in "LMNS" or (category[0] == "P" and character.isascii())
        return character if is_word else " "


_SPELLING = _Spelling()
_BRACKET_SIGNS = {word: bracket for bracket, word in BRACKETS.items()}


def tokenize(caption: str) -> list[str]:
    """The words of a caption, lower case, no punctuation: "A dog's T-shirt." gives a, dog, 's, t-shirt."""
    if _PLAIN.fullmatch(caption):
        words = caption.rstrip(" .").lower().replace(",", " ").split()
        last = words[-1] if words else "none"
        if len(last) > 1 and last not in _DOTTED_WORDS and _CUT_WORDS.isdisjoint(words):
            return words
    return _by_rules(caption)


def _by_rules(caption: str) -> list[str]:
    """The words as `RULES` cut them; a caption of mere words and commas before a last full stop needs none of them."""
    text = _SENTENCE_END.sub(" ", caption).lower()
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return _WORD.findall(text.translate(_SPELLING))


def join(words: Sequence[str]) -> str:
    """A caption to print or store; `tokenize` cuts it into the same words again."""
    return " ".join(_BRACKET_SIGNS.get(word, word) for word in words)
