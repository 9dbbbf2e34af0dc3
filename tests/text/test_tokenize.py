"""The tokenizer: the COCO scorer's cuts, and what that scorer gets wrong for people (cases H16, H19, H23)."""

import itertools
import json
import os
import random
import string
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captioning.text.tokenize import ABBREVIATIONS, BRACKETS, _by_rules, join, tokenize
from tests.oracles.coco_scorer import coco_tokens

CUTS = {
    "A dog runs .": "a dog runs",
    "A dog's T-shirt.": "a dog 's t-shirt",
    "It's a black-and-white photo": "it 's a black-and-white photo",
    "rock 'n' roll": "rock 'n' roll",
    "People don't, can't, WON'T": "people do n't ca n't wo n't",
    "couldn't've": "could n't 've",
    "they're, I'm, he'd, we'll, you've": "they 're i 'm he 'd we 'll you 've",
    "the dogs' toys and 'quoted' words": "the dogs toys and quoted words",
    "five o'clock hors d'oeuvres": "five o'clock hors d'oeuvres",
    "Ho'ohu and Pe'e roads, ma'am": "ho'ohu and pe'e roads ma'am",
    "the '90s, the 1950's": "the '90s the 1950 's",
    "y'all cannot, gonna 'tis": "y' all can not gon na 't is",
    "black-and- white, off -white": "black-and white off white",
    "Mr. Smith at Main St. and 8th Ave. etc.": "mr. smith at main st. and 8th ave. etc.",
    "no. 5 but no.": "no. 5 but no",
    "the U.S. flag on a t.v.": "the u.s. flag on a t.v.",
    'the letter "B."': "the letter b.",
    "A sign that reads K.": "a sign that reads k",
    "a person I. A hood": "a person i a hood",
    "W. Centre St": "w. centre st",
    "at 5:54pm, 1,000 or 3.5": "at 5:54 pm 1,000 or 3.5",
    "10-29-2011 and 1/2 mile": "10-29-2011 and 1/2 mile",
    "a fork/knife, over/under pass": "a fork/knife over/under pass",
    "elephant/ sign / tree": "elephant / sign / tree",
    "# 7 player #41 & dog": "# 7 player # 41 & dog",
    "a cake with M&Ms": "a cake with m&m s",
    "a zebra (or two) [sic]": "a zebra -lrb- or two -rrb- -lsb- sic -rsb-",
    "$10 and 10%": "$ 10 and 10 %",
    "on the ground.A dog": "on the ground.a dog",
    "wait... what -- no": "wait what no",
    "i=on the beach": "i = on the beach",
    "see www.google.com": "see www.google.com",
}
"""Caption -> words as the COCO scorer's Java program gives them."""


@pytest.mark.parametrize("caption", CUTS)
def test_cuts_as_the_coco_scorer_does(caption: str) -> None:
    assert tokenize(caption) == CUTS[caption].split()


@pytest.mark.parametrize("caption", CUTS)
def test_words_survive_being_joined(caption: str) -> None:
    words = tokenize(caption)
    assert tokenize(join(words)) == words


def test_curly_and_straight_apostrophes_are_one() -> None:
    straight = tokenize("the man's hat don't 'n'")
    assert tokenize("the man’s hat don’t ‘n’") == straight
    assert tokenize("the man\u02bcs hat don\u02bct 'n'") == straight


def test_composed_and_decomposed_accents_are_one_word() -> None:
    forms = [unicodedata.normalize(form, "a CAFÉ table") for form in ("NFC", "NFD")]
    assert forms[0] != forms[1]
    assert tokenize(forms[0]) == tokenize(forms[1]) == ["a", "café", "table"]


def test_lower_case_comes_before_composition() -> None:
    assert tokenize("J\u030c") == tokenize("\u01f0") == ["\u01f0"]


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("一只狗在雪地里", ["一只狗在雪地里"]),
        ("كلب يركض في الثلج", ["كلب", "يركض", "في", "الثلج"]),
        ("एक कुत्ता", ["एक", "कुत्ता"]),
        ("Собака", ["собака"]),
        ("a family 👨‍👩‍👧 and a flag 🇫🇷", ["a", "family", "👨‍👩‍👧", "and", "a", "flag", "🇫🇷"]),
        ("dog🐶🐶 ❤️!", ["dog", "🐶", "🐶", "❤️"]),
        ("狗。猫、؟", ["狗", "猫"]),
    ],
)
def test_keeps_letters_of_all_scripts_whole(caption: str, words: list[str]) -> None:
    assert tokenize(caption) == words


@pytest.mark.parametrize("caption", ["", "   ", "...", "!!!", "—", "\n\r\t", "?!", "“”", "。"])
def test_punctuation_alone_is_no_word(caption: str) -> None:
    assert tokenize(caption) == []


def test_line_breaks_marks_and_bars_shift_nothing() -> None:
    assert tokenize("\ufeffa cat\r\non a\u00a0mat\u200b") == ["a", "cat", "on", "a", "mat"]
    assert tokenize("a car\u00adpet") == ["a", "carpet"]
    assert tokenize("two ||| dogs") == ["two", "|", "|", "|", "dogs"]


@pytest.mark.parametrize("word", ABBREVIATIONS.split())
def test_abbreviations_keep_their_full_stop(word: str) -> None:
    assert tokenize(f"dog {word.title()}. dog.") == ["dog", f"{word}.", "dog"]


def test_brackets_are_printed_as_brackets() -> None:
    for bracket, word in BRACKETS.items():
        assert join(["a", word]) == f"a {bracket}"


SPLINTERS = [*"aebnotsyjdlmTIAK .,:-'’/&!?#@_*+=()[]<>½²é👩‍🇫🇷ा\u0301$%~`\"50İßΣ"]
SPLINTERS += [
    "n't",
    "'s",
    "'t",
    "is",
    "gon",
    "na",
    "more",
    "'n",
    "no.",
    "st.",
    "http://",
    "u.s.",
    "  ",
    "1/2",
]


@pytest.mark.parametrize("caption", ["gonnan't’y", "y’I", "onn't", "'t'is", "a.’n", "j'ai", "ol'no. 5"])
def test_words_cut_from_one_another_stay_cut(caption: str) -> None:
    words = tokenize(caption)
    assert tokenize(join(words)) == words


@given(st.lists(st.sampled_from(SPLINTERS), max_size=9).map("".join))
def test_tokenizing_twice_changes_nothing(caption: str) -> None:
    words = tokenize(caption)
    assert tokenize(join(words)) == words
    assert all(word and not any(letter.isspace() for letter in word) for word in words)


PLAIN_PARTS = ["a", "st", "dog", "K", "Gonna", "cannot", "no", ".", ". ", ",", " ", "  ", "u.s", "'s", "A"]


@given(st.lists(st.sampled_from([*PLAIN_PARTS, *SPLINTERS]), max_size=7).map("".join))
def test_the_short_way_for_plain_captions_cuts_as_the_rules_do(caption: str) -> None:
    assert tokenize(caption) == _by_rules(caption)


def real_captions() -> list[str]:
    shared = os.environ.get("CAPTIONING_SHARED")
    if not shared:
        pytest.skip("CAPTIONING_SHARED does not say where the real captions are")
    flickr = Path(shared, "data/flickr8k/Flickr8k.token.txt").read_text(encoding="utf-8").splitlines()
    coco = json.loads(Path(shared, "data/coco/captions_val2017.json").read_text(encoding="utf-8"))
    captions = [line.split("\t", 1)[1] for line in flickr]
    return captions + [row["caption"].replace("\n", " ") for row in coco["annotations"]]


@pytest.mark.shared
def test_real_captions_survive_being_joined() -> None:
    for caption in random.Random(7).sample(real_captions(), 5000):
        words = tokenize(caption)
        assert tokenize(join(words)) == words


@pytest.mark.java
def test_abbreviations_are_those_of_the_java_tokenizer(tmp_path: Path) -> None:
    letters = string.ascii_lowercase
    words = {"".join(word) for length in (2, 3) for word in itertools.product(letters, repeat=length)}
    words |= set(ABBREVIATIONS.split()) | {"calm", "main", "road", "avenue", "street", "photo", "prop"}
    captions = [f"x {word}. y" for word in sorted(words)]
    assert coco_tokens(captions, tmp_path) == [tokenize(caption) for caption in captions]


@pytest.mark.shared
@pytest.mark.java
def test_agrees_with_the_java_tokenizer_on_real_captions(tmp_path: Path) -> None:
    captions = [caption for caption in real_captions() if not caption.isalpha()]
    unusual = [caption for caption in captions if any(sign in caption for sign in "'/&#()-0123456789")]
    sample = random.Random(11).sample(captions, 2000) + unusual
    expected = coco_tokens(sample, tmp_path)
    different = [
        (caption, ours, theirs)
        for caption, ours, theirs in zip(sample, map(tokenize, sample), expected, strict=True)
        if ours != theirs
    ]
    assert different == []
