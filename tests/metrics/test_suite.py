"""`score`: published values, the COCO scorer as judge, ids, what is missing (H15, H41, H43 to H46)."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from captioning.errors import CaptioningError, ConfigError, DataError
from captioning.metrics import DEFAULT, DocumentFrequencies, Scorer, score, suite
from captioning.metrics.meteor import Meteor, tables
from captioning.metrics.results import captions_by_image
from captioning.metrics.table import score_table
from captioning.text.tokenize import tokenize
from tests.oracles.coco_scorer import NAMES, coco_scores

REFERENCES = {1: ["a cat on a mat"], 2: ["two dogs play in the snow"], 3: ["a red bus on a street"]}
CAPTIONS = {1: "a cat on a mat", 2: "two dogs run in the snow", 3: "a bus on a street"}
BLEU = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4")
TINY_SET = {
    **dict(zip(BLEU, [0.8807, 0.7978, 0.7105, 0.6165], strict=True)),
    "ROUGE-L": 0.9093,
    "CIDEr-D": 6.7349,
}


def parity(name: str) -> Any:
    shared = os.environ.get("CAPTIONING_SHARED")
    if not shared:
        pytest.skip("CAPTIONING_SHARED does not say where the real captions are")
    return json.loads(Path(shared, "data/metric_parity", name).read_text(encoding="utf-8"))


def test_tiny_set_has_its_known_values() -> None:
    scores = score(CAPTIONS, REFERENCES, list(TINY_SET))
    assert scores.corpus == pytest.approx(TINY_SET, abs=5e-5)
    assert scores.per_image["CIDEr-D"] == pytest.approx({1: 10, 2: 4.2083, 3: 5.9965}, abs=5e-5)
    assert scores.per_image["ROUGE-L"] == pytest.approx({1: 1, 2: 0.8333, 3: 0.8944}, abs=5e-5)


def test_values_belong_to_ids_in_any_order() -> None:
    turned = score({image: CAPTIONS[image] for image in (3, 1, 2)}, REFERENCES)
    assert turned == score(CAPTIONS, REFERENCES)


def test_without_its_package_meteor_is_left_out_with_the_extra_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "_meteor_of_package", Meteor)
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    scores = score(CAPTIONS, REFERENCES)
    assert set(scores.unavailable) == {"METEOR"}
    assert "pip install 'captioning[meteor]'" in scores.unavailable["METEOR"]
    assert set(scores.corpus) == set(scores.per_image) == set(DEFAULT) - {"METEOR"}
    assert "METEOR n/a: METEOR needs" in score_table({"a": scores})


def test_line_breaks_and_bars_shift_no_score() -> None:
    captions = {1: "a cat\non a mat", 2: "two dogs ||| run in the snow", 3: CAPTIONS[3]}
    scores = score(captions, REFERENCES)
    assert scores.per_image["CIDEr-D"][1] == pytest.approx(10)
    assert scores.per_image["CIDEr-D"][3] == pytest.approx(5.9965, abs=5e-5)
    assert all(len(values) == 3 for values in scores.per_image.values())


@pytest.mark.parametrize(
    "caption",
    ["A dog's T-shirt, worn.", "It's a black-and-white photo", "rock 'n' roll band", "the man’s hat fell"],
)
def test_a_caption_scored_against_itself_is_perfect(caption: str) -> None:
    scores = score({1: caption, 2: "a"}, {1: [caption], 2: ["a dog"]}, ("BLEU-4", "ROUGE-L"))
    assert scores.per_image["BLEU-4"][1] == pytest.approx(1)
    assert scores.per_image["ROUGE-L"][1] == 1


@pytest.mark.parametrize("caption", ["一只狗在雪地里", "كلب يركض في الثلج", "Собака", "👨‍👩‍👧"])
def test_every_script_matches_itself(caption: str) -> None:
    assert score({1: caption}, {1: [caption]}, "BLEU-1").corpus["BLEU-1"] == pytest.approx(1)


def test_one_image_alone_has_no_cider_and_says_why() -> None:
    scores = score({1: CAPTIONS[1]}, {1: REFERENCES[1]}, ("CIDEr-D", "CIDEr-plain", "BLEU-1"))
    assert set(scores.corpus) == {"BLEU-1"}
    assert "at least 2 images" in scores.unavailable["CIDEr-D"]
    assert "training set" in scores.unavailable["CIDEr-plain"]


def test_one_image_with_given_frequencies() -> None:
    frequencies = DocumentFrequencies.of([[["two", "dogs"]], [["a", "bus"]]])
    scores = score({1: CAPTIONS[1]}, {1: REFERENCES[1]}, "CIDEr-D", frequencies=frequencies)
    assert scores.corpus["CIDEr-D"] == pytest.approx(10)


def test_scores_without_brevity_penalty_only_by_name() -> None:
    short = {**CAPTIONS, 3: "a bus"}
    names = ("BLEU-1", "BLEU-1-no-penalty")
    corpus = score(short, REFERENCES, names).corpus
    assert tuple(corpus) == names
    assert corpus["BLEU-1-no-penalty"] > corpus["BLEU-1"]
    assert not any("no-penalty" in name or "plain" in name for name in DEFAULT)


def test_empty_captions_score_nothing() -> None:
    scores = score({**CAPTIONS, 2: "..."}, REFERENCES)
    assert all(values[2] == 0 for values in scores.per_image.values())


def test_a_missing_caption_is_an_error_or_scored_as_empty() -> None:
    short = {1: CAPTIONS[1], 3: CAPTIONS[3]}
    with pytest.raises(DataError, match=r"1 image \(2\) of the references.*2 images \(1, 3\).*as empty"):
        score(short, REFERENCES)
    assert score(short, REFERENCES, missing_as_empty=True) == score({**short, 2: ""}, REFERENCES)


def test_unknown_images_are_named_with_three_examples_of_both_sides() -> None:
    captions = {**CAPTIONS, **dict.fromkeys((99, 98, 97, 96), "a ghost")}
    with pytest.raises(DataError, match=r"4 images \(99, 98, 97, \.\.\.\).*3 images \(1, 2, 3\)"):
        score(captions, REFERENCES, missing_as_empty=True)


def test_ids_that_only_read_alike_are_told_apart() -> None:
    with pytest.raises(DataError, match=r"'1'.*\(1, 2, 3\).*different types \(int, str\)"):
        score({str(image): caption for image, caption in CAPTIONS.items()}, REFERENCES)
    two = {"7": ["a dog"], "007": ["a cat"]}
    scores = score({"007": "a cat", "7": "a dog"}, two, "BLEU-1")
    assert scores.per_image["BLEU-1"] == pytest.approx({"7": 1, "007": 1})


@pytest.mark.parametrize(("captions", "references"), [({}, REFERENCES), (CAPTIONS, {}), ({}, {})])
def test_nothing_to_score(captions: dict[int, str], references: dict[int, list[str]]) -> None:
    with pytest.raises(DataError, match="nothing to score"):
        score(captions, references, missing_as_empty=True)


def test_images_without_references_are_named() -> None:
    with pytest.raises(DataError, match=r"1 image \(2\) have no caption"):
        score(CAPTIONS, {**REFERENCES, 2: []})


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"no 'Bleu-4'; did you mean 'BLEU-4'"):
        score(CAPTIONS, REFERENCES, ("Bleu-4",))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"image_id": 1, "caption": "a"}] * 2 + [{"image_id": 2, "caption": "a"}],
            r"1 of the images.*\('1'\)",
        ),
        ([{"image_id": 1}], "row 0"),
        ([{"image_id": None, "caption": "a"}], "row 0"),
        ([{"image_id": 1, "caption": None}], "row 0"),
        (["a dog"], "row 0"),
    ],
)
def test_bad_predictions_are_named(rows: list[Any], message: str) -> None:
    with pytest.raises(CaptioningError, match=message):
        captions_by_image(rows)


def test_ids_are_text_and_numbers_that_read_alike_are_one_image() -> None:
    assert captions_by_image([{"image_id": "007", "caption": "a"}, {"image_id": 7, "caption": "b"}]) == {
        "007": "a",
        "7": "b",
    }
    with pytest.raises(DataError, match=r"1 of the images.*'7'"):
        captions_by_image([{"image_id": "7", "caption": "a"}, {"image_id": 7, "caption": "b"}])


def test_a_scorer_gives_the_same_again() -> None:
    scorer = Scorer(REFERENCES)
    first = scorer.score(CAPTIONS)
    scorer.score(dict.fromkeys(CAPTIONS, "a"))
    assert scorer.score(CAPTIONS) == first


def test_agrees_with_the_coco_scorer_on_drawn_captions() -> None:
    generator = random.Random(13)
    draw = lambda: [generator.choice("abcde") for _ in range(generator.randint(0, 13))]  # noqa: E731
    references = {image: [draw() or ["a"] for _ in range(generator.randint(1, 7))] for image in range(29)}
    captions = {image: draw() for image in references}
    expected = coco_scores(captions, references)
    scores = score(
        {image: " ".join(words) for image, words in captions.items()},
        {image: [" ".join(words) for words in texts] for image, texts in references.items()},
        NAMES,
    )
    for name, (corpus, images) in expected.items():
        assert scores.corpus[name] == pytest.approx(corpus, abs=1e-9)
        assert scores.per_image[name] == pytest.approx(images, abs=1e-9)


PUBLISHED = {
    "two sentences": (
        {
            1: "this is the model generated sentence1 which seems good enough",
            2: "this is sentence2 which has been generated by your model",
        },
        {
            1: [
                "this is one reference sentence for sentence1",
                "this is one more reference sentence for sentence1",
            ],
            2: [
                "this is a reference sentence for sentence2 which was generated by your model",
                "this is the second reference sentence for sentence2",
            ],
        },
        [0.55, 0.428174, 0.284043, 0.201143, 0.522104, 1.242192],
        1e-6,
    ),
    "good captions": (
        {
            1: "an orange cat and a grey cat are lying together.",
            2: "a black dog wearing headphones looks at the camera as an orange cat walks in the background.",
        },
        "cats and dogs",
        [0.6667, 0.4899, 0.3469, 0.0, 0.4280, 0.5637],
        1e-4,
    ),
    "bad captions": (
        {
            1: "a calico cat and a white cat are lying together.",
            2: "a black dog wearing a hat looks at the camera as a tabby walks in the background.",
        },
        "cats and dogs",
        [0.4815, 0.2404, 0.1359, 0.0, 0.3121, 0.2790],
        1e-4,
    ),
}
CATS_AND_DOGS = {
    1: [
        "two cats are sleeping next to each other.",
        "a grey cat is cuddling with an orange cat on a blanket.",
        "the orange cat is happy that the black cat is close to it.",
    ],
    2: [
        "a dog is wearing ear muffs as it lies on a carpet.",
        "a black dog and an orange cat are looking at the photographer.",
        "headphones are placed on a dogs ears.",
    ],
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_examples(name: str) -> None:
    captions, references, expected, tolerance = PUBLISHED[name]
    scores = score(captions, CATS_AND_DOGS if references == "cats and dogs" else references, NAMES)
    assert list(scores.corpus.values()) == pytest.approx(expected, abs=tolerance)


def test_published_values_of_meteor() -> None:
    pytest.importorskip("pycocoevalcap")
    for name, expected in (("two sentences", 0.295797), ("good captions", 0.3444), ("bad captions", 0.1861)):
        captions, references, _, tolerance = PUBLISHED[name]
        references = CATS_AND_DOGS if references == "cats and dogs" else references
        assert score(captions, references, "METEOR").corpus["METEOR"] == pytest.approx(expected, abs=tolerance)
    single = score({1: "this is a good test"}, {1: ["this is a test", "this is also a test"]}, "METEOR")
    assert single.corpus["METEOR"] == pytest.approx(0.444344, abs=1e-6)


def test_published_single_sentence() -> None:
    scores = score({1: "this is a good test"}, {1: ["this is a test", "this is also a test"]}, NAMES[:5])
    expected = [0.8, 0.632455, 0.510873, 0.0000904, 0.907063]
    assert list(scores.corpus.values()) == pytest.approx(expected, abs=1e-6)


def test_stored_values_of_the_coco_scorer_on_real_captions() -> None:
    """COCO captions (CC BY 4.0) with what `python -m scripts.parity --sample` had the judge say of them."""
    stored = json.loads(Path(__file__).with_name("coco_sample.json").read_text(encoding="utf-8"))
    rows = {row["image_id"]: row for row in stored["images"]}
    for row in rows.values():
        texts = [row["caption"], *row["references"]]
        assert [tokenize(text) for text in texts] == [cut.split() for cut in (row["tokens"], *row["reference_tokens"])]
    captions = {image: row["caption"] for image, row in rows.items()}
    scores = score(captions, {image: row["references"] for image, row in rows.items()}, NAMES)
    for name in NAMES:
        assert scores.corpus[name] == pytest.approx(stored["corpus"][name], abs=1e-9)
        values = {image: row["values"][name] for image, row in rows.items()}
        assert scores.per_image[name] == pytest.approx(values, abs=1e-9)


COCO_NAMES = dict(zip(("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr"), NAMES, strict=True))
COCO_NAMES["METEOR"] = "METEOR"


@pytest.mark.shared
def test_agrees_with_the_coco_scorer_on_a_real_system() -> None:
    pytest.importorskip("pycocoevalcap")
    stored = parity("x_transformer_small200.json")
    rows = {row["image_id"]: row for row in stored["images"]}
    assert all(tokenize(row["caption"]) == row["caption_tokenized"].split() for row in rows.values())
    scores = score(
        {image: row["caption"] for image, row in rows.items()},
        {image: row["refs"] for image, row in rows.items()},
    )
    for theirs, ours in COCO_NAMES.items():
        assert scores.corpus[ours] == pytest.approx(stored["scores"][theirs], abs=1e-9)
        images = {image: row[theirs] for image, row in rows.items()}
        assert scores.per_image[ours] == pytest.approx(images, abs=1e-9)
