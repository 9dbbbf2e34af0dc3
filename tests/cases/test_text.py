"""Cases H16 to H19: one tokenizer for training, prediction and scoring, and ids that never move."""

import hashlib
import json
import os
import subprocess
import sys
import unicodedata

import pytest

import captioning
from captioning.checkpoint import load
from captioning.data.files import find_picture
from captioning.data.formats import read_captions
from captioning.data.records import CaptionedImage, CaptionSet, build_vocabulary
from captioning.evaluation import read_predictions, write_predictions
from captioning.metrics import score
from captioning.text.tokenize import join, tokenize
from captioning.text.vocabulary import SPECIAL_WORDS, UNKNOWN
from tests.cases.making import board, encoded, fresh_captioner, given, write_captioner, write_rows

AWKWARD = ["A dog's T-shirt.", "It's a black-and-white photo", "rock 'n' roll", "the man’s hat", "X-ray of a hand"]
SCRIPTS = [
    "一只狗在雪地里",
    "كلب يركض في الثلج",
    "एक कुत्ता",
    "a family 👨‍👩‍👧 and a flag 🇫🇷",
    "Собака",
    "สุนัขวิ่ง",
    "개가 달린다",
]


def trained_on(captions, *others):
    """The vocabulary of training captions, with captions of other splits beside them."""
    records = [CaptionedImage(f"{n}.png", f"{n}.png", (c,), "train") for n, c in enumerate(captions)]
    records += [CaptionedImage(f"{s}{n}", "x", (c,), s) for s, own in others for n, c in enumerate(own)]
    return build_vocabulary(CaptionSet(tuple(records)), minimum_count=1)


def test_H16_a_caption_scored_against_itself_is_perfect():
    said = dict(enumerate(AWKWARD))
    scores = score(said, {image: [caption] for image, caption in said.items()}, ["BLEU-1", "BLEU-4", "ROUGE-L"])
    longer = [image for image, caption in said.items() if len(tokenize(caption)) >= 4]
    assert all(scores.per_image["BLEU-4"][image] == pytest.approx(1) for image in longer)
    for name in ("BLEU-1", "ROUGE-L"):
        assert all(value == pytest.approx(1) for value in scores.per_image[name].values())
    assert scores.corpus["BLEU-4"] == pytest.approx(1)


def test_H16_ids_survive_decoding_and_both_apostrophes_are_one():
    vocabulary = trained_on(AWKWARD)
    for caption in AWKWARD:
        ids = vocabulary.encode(tokenize(caption))
        assert UNKNOWN not in ids
        assert vocabulary.encode(tokenize(join(vocabulary.decode(ids)))) == ids
    straight, curly = (vocabulary.encode(tokenize(text)) for text in ("the man's hat", "the man’s hat"))
    assert straight == curly


@pytest.mark.shared
def test_H16_the_given_captions_score_one_against_themselves():
    rows = [json.loads(line) for line in given("captions", "apostrophes_hyphens.jsonl").read_text("utf-8").splitlines()]
    said = {number: row["caption"] for number, row in enumerate(rows)}
    assert list(said.values()) == AWKWARD
    assert score(said, {n: [c] for n, c in said.items()}, ["BLEU-4"]).corpus["BLEU-4"] == pytest.approx(1)


def test_H17_words_of_other_splits_do_not_leak():
    red, zebra = ["a red board"] * 5, ["a zebra crossing"] * 5
    alone = trained_on(red)
    assert len(alone) == 3 + len(SPECIAL_WORDS)
    for others in ([("test", zebra)], [("val", zebra)], [("test", zebra), ("val", zebra), ("uncaptioned", ())]):
        with_others = trained_on(red, *others)
        assert with_others == alone
        assert "zebra" not in with_others
        assert with_others["zebra"] == UNKNOWN


BUILD = """
import hashlib, json, random, sys
from captioning.data.records import CaptionedImage, CaptionSet, build_vocabulary
words = [f"word{n % 53}" for n in range(400)]
captions = [" ".join(words[n : n + 5]) for n in range(200)]
records = tuple(CaptionedImage(str(n), str(n), (c,), "train") for n, c in enumerate(captions))
print(json.dumps(build_vocabulary(CaptionSet(records), minimum_count=1).to_list()))
"""
CAPTION = "import sys, captioning; print(captioning.load(sys.argv[1]).caption([sys.argv[2]])[0].text)"


def in_a_new_process(code, *arguments, seed):
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_H18_every_process_builds_the_same_vocabulary():
    built = [in_a_new_process(BUILD, seed=seed) for seed in (0, 1, 2)]
    assert len({hashlib.sha256(text.encode()).hexdigest() for text in built}) == 1
    assert len(json.loads(built[0])) == 53 + len(SPECIAL_WORDS)


def test_H18_a_captioner_says_the_same_in_another_process(tmp_path, board_file):
    model = write_captioner(tmp_path / "model", fresh_captioner(seed=11))
    [caption] = captioning.load(model).caption([board_file])
    assert caption.words
    assert in_a_new_process(CAPTION, model, board_file, seed=7).strip() == caption.text


def test_H19_composed_and_decomposed_are_one_word_and_one_picture(tmp_path):
    (tmp_path / unicodedata.normalize("NFC", "café.jpg")).write_bytes(encoded(board()))
    forms = [unicodedata.normalize(form, "café") for form in ("NFC", "NFD")]
    rows = write_rows(tmp_path / "rows.jsonl", *[(f"{word}.jpg", f"a {word} table") for word in forms])
    captions = read_captions(rows, fractions={"train": 1.0})
    [record] = captions.records
    assert record.captions == ("a café table",) * 2
    assert len(build_vocabulary(captions, minimum_count=1)) == 3 + len(SPECIAL_WORDS)
    (tmp_path / unicodedata.normalize("NFD", "né.jpg")).write_bytes(b"")
    assert find_picture(tmp_path, unicodedata.normalize("NFC", "né.jpg")).is_file()


@pytest.mark.parametrize("caption", SCRIPTS)
def test_H19_captions_of_all_scripts_keep_their_words_and_their_text(caption, tmp_path):
    words = tokenize(caption)
    assert words
    assert "".join(words) == "".join(unicodedata.normalize("NFC", caption.lower()).split())
    rows = write_rows(tmp_path / "rows.jsonl", ("a.jpg", caption))
    assert read_captions(rows, fractions={"train": 1.0}, check_files=False).captions == (caption,)
    write_predictions(tmp_path / "predictions.json", {"a": caption})
    assert read_predictions(tmp_path / "predictions.json") == {"a": caption}
    assert caption in (tmp_path / "predictions.json").read_text(encoding="utf-8")
    assert score({1: caption}, {1: [caption]}, ["BLEU-1"]).corpus["BLEU-1"] == pytest.approx(1)


def test_H19_joined_emoji_and_vowel_signs_are_not_torn():
    assert tokenize("a family 👨‍👩‍👧 and a flag 🇫🇷")[2::4] == ["👨‍👩‍👧", "🇫🇷"]
    assert tokenize("एक कुत्ता") == ["एक", "कुत्ता"]


@pytest.mark.shared
def test_H19_the_given_two_forms_are_one_word():
    captions = read_captions(given("captions", "nfc_nfd.jsonl"), images=given("images", ""), fractions={"train": 1.0})
    assert len({word for caption in captions.captions for word in tokenize(caption)}) == 3
    assert len(captions) == 1


def test_H19_the_vocabulary_of_a_captioner_keeps_its_letters(tmp_path):
    words = [word for caption in SCRIPTS for word in tokenize(caption)]
    model = write_captioner(tmp_path / "model", fresh_captioner(tuple(dict.fromkeys(words))))
    assert load(model).vocabulary.to_list()[4:] == list(dict.fromkeys(words))
