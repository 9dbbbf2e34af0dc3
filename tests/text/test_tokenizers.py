"""Tokenizers by name: what they cut, that text comes back, and that they are kept with their vocabulary."""

import json
import pickle
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captioning.data.records import CaptionedImage, CaptionSet, build_vocabulary
from captioning.errors import CheckpointError, ConfigError
from captioning.metrics import score
from captioning.text.characters import space_out, split_characters
from captioning.text.tokenizers import BLANK, CharacterTokenizer, SubwordTokenizer, make_tokenizer, tokenizer_from
from captioning.text.vocabulary import SPECIAL_WORDS, UNKNOWN, Vocabulary

CAPTIONS = [
    "一只狗在雪地里",
    "一只猫在雪地里",
    "كلب يركض في الثلج",
    "एक कुत्ता दौड़ रहा है",
    "สุนัขวิ่งบนหิมะ",
    "a family 👨‍👩‍👧 and a flag 🇫🇷",
    "A dog's T-shirt, in red.",
    "Собака бежит",
]
CHARACTERS = {
    "一只狗": ["一", "只", "狗"],
    "कुत्ता": ["कु", "त्", "ता"],
    "👨‍👩‍👧🇫🇷🇩🇪❤️": ["👨‍👩‍👧", "🇫🇷", "🇩🇪", "❤️"],
    "e\u0301a": ["e\u0301", "a"],
    "👍🏽!": ["👍🏽", "!"],
    "หิมะ": ["หิ", "ม", "ะ"],
}


def vocabulary_of(captions, tokenizer, **options):
    records = [CaptionedImage(str(n), "x", (caption,), "train") for n, caption in enumerate(captions)]
    return build_vocabulary(CaptionSet(tuple(records)), tokenizer=tokenizer, **{"minimum_count": 1} | options)


@pytest.mark.parametrize("text", CHARACTERS)
def test_characters_are_what_a_reader_counts(text):
    assert split_characters(text) == CHARACTERS[text]


@given(st.text())
def test_characters_give_the_text_again(text):
    assert "".join(split_characters(text)) == text


@pytest.mark.parametrize("name", ["character", "subword"])
@pytest.mark.parametrize("caption", CAPTIONS)
def test_text_comes_back_from_ids(name, caption):
    pytest.importorskip("tokenizers")
    vocabulary = vocabulary_of(CAPTIONS, name)
    ids = vocabulary.encode(vocabulary.tokenize(f"  {unicodedata.normalize('NFD', caption)} "))
    assert UNKNOWN not in ids
    assert vocabulary.join(vocabulary.decode(ids)) == unicodedata.normalize("NFC", caption)
    assert vocabulary.encode(vocabulary.tokenize(vocabulary.join(vocabulary.decode(ids)))) == ids


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters=BLANK)))
def test_any_text_comes_back_from_characters(text):
    plain = " ".join(unicodedata.normalize("NFC", text).split())
    tokenizer = CharacterTokenizer()
    assert tokenizer.join(tokenizer.tokenize(text)) == plain
    assert all(tokenizer.tokenize(text))


@pytest.mark.parametrize("name", ["word", "character", "subword"])
def test_a_tokenizer_is_kept_as_plain_types_and_can_be_pickled(name):
    pytest.importorskip("tokenizers")
    vocabulary = vocabulary_of(CAPTIONS, name)
    kept = json.loads(json.dumps(vocabulary.tokenizer.to_dict()))
    again = Vocabulary.from_list(vocabulary.to_list(), tokenizer_from(kept))
    assert again == vocabulary
    assert again.fingerprint() == vocabulary.fingerprint()
    for caption in CAPTIONS:
        assert again.tokenize(caption) == pickle.loads(pickle.dumps(vocabulary)).tokenize(caption)


def test_subwords_are_learned_from_frequent_pairs_and_know_new_words():
    pytest.importorskip("tokenizers")
    vocabulary = vocabulary_of(["low lower lowest low"] * 5 + ["new newer"], "subword", maximum_size=21)
    assert len(vocabulary) <= 21
    assert "▁low" in vocabulary
    assert UNKNOWN not in vocabulary.encode(vocabulary.tokenize("newest"))
    assert vocabulary.encode(vocabulary.tokenize("zebra"))[1:-1].count(UNKNOWN) == 3  # z, b, a
    assert vocabulary.words[:4] == SPECIAL_WORDS


def test_a_caption_cannot_say_a_special_word():
    pytest.importorskip("tokenizers")
    for name in ("character", "subword"):
        vocabulary = vocabulary_of([*CAPTIONS, "<end> <unk> <pad>"], name)
        ids = vocabulary.encode(vocabulary.tokenize("<end> <unk>"))
        assert not {0, 1, 2} & set(ids[1:-1])


def test_only_training_captions_teach_subwords():
    pytest.importorskip("tokenizers")
    records = [CaptionedImage(str(n), "x", ("a red board",), "train") for n in range(5)]
    other = CaptionedImage("t", "x", ("zebra crossing",) * 9, "test")
    alone = build_vocabulary(CaptionSet(tuple(records)), minimum_count=1, tokenizer="subword")
    assert build_vocabulary(CaptionSet((*records, other)), minimum_count=1, tokenizer="subword") == alone


def test_vocabularies_of_other_tokenizers_are_refused():
    words = [*SPECIAL_WORDS, "a", "b"]
    by_word, by_character = Vocabulary(words), Vocabulary(words, CharacterTokenizer())
    assert by_word != by_character
    assert by_word.fingerprint() != by_character.fingerprint()
    with pytest.raises(CheckpointError, match="a word tokenizer of its own against another character one"):
        by_word.check_same(by_character)


def test_unknown_names_and_damaged_models_are_told():
    pytest.importorskip("tokenizers")
    with pytest.raises(ConfigError, match="expected one of word, character, subword, got 'wordpiece'"):
        make_tokenizer("wordpiece", CAPTIONS, pieces=None, minimum_count=1)
    with pytest.raises(CheckpointError, match="got 'wordpiece'"):
        tokenizer_from({"name": "wordpiece"})
    with pytest.raises(CheckpointError, match="its model can't be read"):
        tokenizer_from({"name": "subword", "model": "{}"})
    assert isinstance(make_tokenizer("subword", CAPTIONS, pieces=50, minimum_count=1), SubwordTokenizer)


def test_metrics_compare_characters_of_scripts_without_spaces():
    assert space_out("a 狗 dog") == "a  狗  dog"
    assert space_out("कुत्ता") == "कुत्ता"
    scores = score({1: "一只狗在雪地里"}, {1: ["一只猫在雪地里"]}, ["BLEU-1", "BLEU-2"]).corpus
    assert scores["BLEU-1"] == pytest.approx(6 / 7)
    assert scores["BLEU-2"] == pytest.approx((6 / 7 * 4 / 6) ** 0.5)
