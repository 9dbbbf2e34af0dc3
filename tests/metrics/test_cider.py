"""CIDEr-D and plain CIDEr: closed forms, frequencies, rewards (cases H41, H44)."""

import itertools
import json
import math
import pickle

import pytest

from captioning.errors import DataError
from captioning.metrics.cider import CiderD, CiderPlain, DocumentFrequencies
from captioning.metrics.ngrams import count_ngrams


def words(text: str) -> list[str]:
    return text.split()


REFERENCES = {
    1: [words("a cat on a mat")],
    2: [words("two dogs play in the snow"), words("dogs in snow")],
    3: [words("a red bus on a street"), words("a bus"), words("a bus on a road")],
}


def test_a_caption_equal_to_all_its_references_scores_ten() -> None:
    assert CiderD(REFERENCES).score_one(1, words("a cat on a mat")) == pytest.approx(10)
    assert CiderPlain(REFERENCES).score_one(1, words("a cat on a mat")) == pytest.approx(10)


def test_nothing_beats_the_references_words() -> None:
    cider = CiderD(REFERENCES)
    best = cider.score_one(1, words("a cat on a mat"))
    for caption in itertools.product(words("a cat on mat"), repeat=5):
        assert cider.score_one(1, caption) <= best + 1e-12


def test_weights_are_logarithms_of_inverse_document_frequencies() -> None:
    frequencies = DocumentFrequencies.of(REFERENCES.values())
    assert frequencies.documents == 3
    assert frequencies.counts["a",] == 2
    assert frequencies.counts["in", "the"] == 1
    assert frequencies.weights["on", "a"] == pytest.approx(math.log(3 / 2))
    assert frequencies.weight_of_unknown == pytest.approx(math.log(3))


def test_value_by_hand() -> None:
    # "x" is in one of two documents, "z" in none: both weigh log 2. "x z" against "x y" has the same length,
    # the cosine of words 1 / (sqrt 2 sqrt 2) and no pair in common.
    references = {1: [["x", "y"]], 2: [["v", "w"]]}
    assert CiderD(references).score_one(1, ["x", "z"]) == pytest.approx(10 / 4 / 2)
    # "x z q": the cosine of words 1 / (sqrt 3 sqrt 2), one word more than the reference has
    expected = 10 / 4 / math.sqrt(6) * math.exp(-1 / 72)
    assert CiderD(references).score_one(1, ["x", "z", "q"]) == pytest.approx(expected)
    assert CiderPlain(references).score_one(1, ["x", "z", "q"]) == pytest.approx(10 / 4 / math.sqrt(6))


def test_repeating_a_word_is_clipped_in_cider_d_only() -> None:
    references = {1: [["x", "y"]], 2: [["v", "w"]]}
    # words: (3, 0) against (1, 1); no pair in common
    length = math.exp(-1 / 72)
    assert CiderD(references).score_one(1, ["x"] * 3) == pytest.approx(10 / 4 * length / (3 * math.sqrt(2)))
    assert CiderPlain(references).score_one(1, ["x"] * 3) == pytest.approx(10 / 4 / math.sqrt(2))


def test_empty_and_one_word_captions() -> None:
    cider = CiderD(REFERENCES)
    assert cider.score_one(1, []) == 0.0
    assert 0 < cider.score_one(1, ["cat"]) < 10
    assert cider.score_one(1, ["dogs"]) == 0.0
    assert CiderD({1: [["dog"]], 2: [["cat"]]}).score_one(1, ["dog"]) == pytest.approx(10 / 4)


def test_words_that_all_documents_have_weigh_nothing() -> None:
    assert CiderD({1: [["a"]], 2: [["a"]]}).score_one(1, ["a"]) == 0.0


def test_order_of_references_and_of_images_is_irrelevant() -> None:
    turned = {image: texts[::-1] for image, texts in reversed(REFERENCES.items())}
    captions = {2: words("two dogs in the snow"), 3: words("a bus on a street"), 1: ["cat"]}
    scores = CiderD(REFERENCES).score(captions)
    assert list(scores) == [2, 3, 1]
    assert CiderD(turned).score(captions) == pytest.approx(scores)


def test_one_image_has_no_frequencies() -> None:
    with pytest.raises(DataError, match="at least 2 images, got those of 1"):
        CiderD({1: [["a", "cat"]]})


def test_one_image_with_frequencies_of_another_set() -> None:
    frequencies = DocumentFrequencies.of([[["two", "dogs"]], [["a", "bus"]], [["a", "tree"]]])
    alone = CiderD({1: [words("a cat on a mat")]}, frequencies=frequencies)
    assert alone.score_one(1, words("a cat on a mat")) == pytest.approx(10)


def test_frequencies_survive_json_and_pickle() -> None:
    frequencies = DocumentFrequencies.of(REFERENCES.values())
    stored = DocumentFrequencies.from_dict(json.loads(json.dumps(frequencies.to_dict())))
    assert stored == frequencies
    assert pickle.loads(pickle.dumps(frequencies)) == frequencies


def test_an_end_word_punishes_captions_that_break_off() -> None:
    ended = {image: [[*caption, "<end>"] for caption in texts] for image, texts in REFERENCES.items()}
    cider = CiderD(ended)
    cut = words("a red bus on a")
    assert cider.score_one(3, [*cut, "<end>"]) < cider.score_one(3, words("a red bus on a street <end>"))
    assert cider.frequencies.counts["<end>",] == 3


def test_few_kept_references_change_no_value() -> None:
    captions = {image: texts[0] for image, texts in REFERENCES.items()}
    few = CiderD(REFERENCES, keep=1)
    assert few.score(captions) == few.score(captions) == CiderD(REFERENCES).score(captions)
    assert pickle.loads(pickle.dumps(few)).score(captions) == few.score(captions)


def test_counted_captions_are_taken_as_they_are() -> None:
    counted = count_ngrams(["a", "b", "a"])
    assert count_ngrams(counted) is counted
    assert counted.ngrams == {("a",): 2, ("b",): 1, ("a", "b"): 1, ("b", "a"): 1, ("a", "b", "a"): 1}
