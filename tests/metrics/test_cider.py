"""CIDEr-D and plain CIDEr: closed forms, frequencies, rewards (cases H41, H44)."""

import itertools
import math
from collections import Counter
from pathlib import Path

import pytest

from captioning.errors import DataError
from captioning.metrics.cider import CiderD, CiderPlain
from captioning.metrics.frequencies import DocumentFrequencies
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
    frequencies = DocumentFrequencies.of(list(REFERENCES.values()))
    assert frequencies.documents == 3
    assert frequencies.count("a") == 2
    assert frequencies.count("in", "the") == 1
    assert frequencies.weight("on", "a") == pytest.approx(math.log(3 / 2))
    assert frequencies.count("a", "zebra") == frequencies.count("zebra", "a") == 0
    assert frequencies.weight("zebra") == pytest.approx(math.log(3))


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


def test_frequencies_survive_a_file(tmp_path: Path) -> None:
    frequencies = DocumentFrequencies.of(list(REFERENCES.values()))
    frequencies.save(tmp_path / "frequencies.npz")
    stored = DocumentFrequencies.load(tmp_path / "frequencies.npz")
    assert stored.documents == 3
    assert stored.count("on", "a") == 2
    captions = {1: words("a cat on a zebra"), 3: words("a red zebra")}
    expected = CiderD(REFERENCES, frequencies=frequencies).score(captions)
    assert CiderD(REFERENCES, frequencies=stored).score(captions) == expected


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_a_damaged_file_of_frequencies_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "frequencies.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"frequencies\.npz.*save_frequencies"):
        DocumentFrequencies.load(path)


def test_an_end_word_punishes_captions_that_break_off() -> None:
    ended = {image: [[*caption, "<end>"] for caption in texts] for image, texts in REFERENCES.items()}
    cider = CiderD(ended)
    cut = words("a red bus on a")
    assert cider.score_one(3, [*cut, "<end>"]) < cider.score_one(3, words("a red bus on a street <end>"))
    assert cider.frequencies.count("<end>") == 3


def test_samples_are_rewarded_as_each_alone() -> None:
    cider = CiderD(REFERENCES)
    images = [3, 1, 3, 3, 2]
    captions = [words(text) for text in ("a red bus", "a cat", "a bus on a road", "", "two zebras in the snow")]
    alone = [cider.score_one(image, caption) for image, caption in zip(images, captions, strict=True)]
    assert cider.score_many(images, captions).tolist() == pytest.approx(alone)
    assert cider.score_many([], []).tolist() == []


def test_words_that_no_reference_has_lengthen_the_vector() -> None:
    frequencies = DocumentFrequencies.of(list(REFERENCES.values()))
    known, unknown = (
        CiderPlain(REFERENCES, frequencies=frequencies).score_one(1, words(text)) for text in ("cat mat", "cat zebra")
    )
    assert known > unknown > 0


def test_the_end_of_a_broken_caption_costs_as_case_h28_says() -> None:
    texts = ["two dogs play in the snow", "a red bus on a street", "a man with a hat", "a bowl of fruit on a table"]
    references = {0: [words("a cat on a mat"), words("a cat on a chair")]}
    references |= {image: [words(text)] for image, text in enumerate(texts, start=1)}
    captions = [words("a cat on a"), words("a cat on a mat"), words("a cat on a sofa")]
    assert CiderD(references).score_many([0, 0, 0], captions).tolist() == pytest.approx([7.599, 7.981, 5.962], abs=6e-4)
    ended = {image: [[*caption, "<end>"] for caption in group] for image, group in references.items()}
    rewards = CiderD(ended).score_many([0, 0, 0], [[*caption, "<end>"] for caption in captions])
    assert rewards.tolist() == pytest.approx([5.696, 7.358, 4.716], abs=6e-4)


def test_n_grams_are_counted_within_captions() -> None:
    captions = [["a", "b", "a"], [], ["b"], list("abcab")]
    counts, tree, sizes = count_ngrams(captions)
    assert counts.lengths.tolist() == [3, 0, 1, 5]
    for number, caption in enumerate(captions):
        expected = Counter(
            tuple(caption[start : start + size]) for size in (1, 2, 3, 4) for start in range(len(caption) - size + 1)
        )
        rows = counts.caption == number
        found = dict(zip(counts.ngram[rows].tolist(), counts.times[rows].tolist(), strict=True))
        assert found == {tree.node(ngram): times for ngram, times in expected.items()}
        assert all(sizes[tree.node(ngram)] == len(ngram) for ngram in expected)
