"""What a reader takes for one character, and scripts that are written without spaces."""

import re
import unicodedata

_JOINER = "\u200d"
_MODIFIERS = re.compile("[\u200c\u200d\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]"  # Han
)


def split_characters(text: str) -> list[str]:
    """The characters of a text as a reader counts them: an accent or vowel sign stays with its letter, the parts of a
    joined emoji and the two letters of a flag stay together. "".join gives the text again."""
    characters: list[str] = []
    for sign in text:
        if characters and _continues(characters[-1], sign):
            characters[-1] += sign
        else:
            characters.append(sign)
    return characters


def space_out(caption: str) -> str:
    """The caption with a blank around each character of a script that is written without spaces.

    Metrics compare words, so that such captions are compared by characters, as is usual for Chinese; other scripts,
    and captions without such characters, stay as they are.
    """
    if caption.isascii() or not _WITHOUT_SPACES.search(caption):
        return caption
    parts = split_characters(unicodedata.normalize("NFC", caption))
    return "".join(f" {part} " if _WITHOUT_SPACES.match(part) else part for part in parts)


def _continues(before: str, sign: str) -> bool:
    """Whether `sign` belongs to the character `before`."""
    if unicodedata.category(sign).startswith("M") or _MODIFIERS.match(sign):
        return not before.isspace()
    if _FLAG_LETTER.match(sign):
        return _FLAG_LETTER.fullmatch(before) is not None
    return before.endswith(_JOINER) and not sign.isspace()
