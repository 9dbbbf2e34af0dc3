"""Captions' own statistics and their diversity: counted by hand, closed forms at both ends."""

import math
from itertools import product

import pytest

from captioning.errors import DataError
from captioning.metrics import DocumentFrequencies, Scorer
from captioning.metrics.captions import describe_captions, describe_samples, self_cider

FREQUENCIES = DocumentFrequencies.of([[["a", "b", "c"]], [["d", "e", "f"]], [["x", "y", "z"]]])


def test_statistics_by_hand() -> None:
    captions = ["A dog runs.", "a dog runs", "two cats", "a dog"]
    found = describe_captions(
        captions, training_captions=["A dog , runs", "a bird"], vocabulary_words=["a", "dog", "zebra"], cut_off=1
    )
    assert found.captions == 4
    assert found.distinct == 3 / 4
    assert found.novel == 2 / 4
    assert found.words_used == 5
    assert found.vocabulary_used == 2 / 3
    assert found.mean_length == 10 / 4
    assert found.cut_off == 1 / 4


def test_what_is_not_known_is_none() -> None:
    found = describe_captions(["a dog"])
    assert (found.novel, found.vocabulary_used, found.cut_off) == (None, None, None)
    with pytest.raises(DataError, match="at least one caption"):
        describe_captions([])


@pytest.mark.parametrize("number", [2, 3, 5])
def test_equal_captions_have_no_diversity_and_captions_with_nothing_in_common_have_all(number: int) -> None:
    assert self_cider([["a", "b", "c", "d"]] * number, FREQUENCIES) == pytest.approx(0, abs=1e-6)
    apart = [[letter + sign for sign in "1234"] for letter in "abcde"[:number]]
    assert self_cider(apart, FREQUENCIES) == pytest.approx(1)


def test_two_captions_of_known_similarity() -> None:
    # one word of two in common, all of one weight: the cosine of words is 1/2, no pair; of themselves both are 1
    similar = 1 / 2 / 4
    roots = [math.sqrt(2 / 4 + similar), math.sqrt(2 / 4 - similar)]
    expected = -math.log(roots[0] / sum(roots), 2)
    assert self_cider([["q", "r"], ["q", "s"]], FREQUENCIES) == pytest.approx(expected)


def test_empty_captions_have_no_diversity() -> None:
    assert self_cider([[], []], FREQUENCIES) == 0


def test_samples_by_hand_and_their_oracle_by_trying_all_choices() -> None:
    references = {1: ["a cat on a mat", "the cat"], 2: ["two dogs play in the snow"], 3: ["a red bus on a street"]}
    samples = {
        1: ["a cat", "a cat on a mat", "two dogs"],
        2: ["two dogs in the snow", "snow", "two dogs play"],
        3: ["a bus", "a red bus on a mat", ""],
    }
    scorer = Scorer(references, ("BLEU-1", "ROUGE-L", "CIDEr-D"))
    found = describe_samples(samples, scorer, FREQUENCIES)
    assert found.captions_per_image == 3
    # different words ÷ words: {a cat on mat two dogs} of 9, {two dogs in the snow play} of 9, {a bus red on mat} of 8
    assert found.distinct_1 == pytest.approx((6 / 9 + 6 / 9 + 5 / 8) / 3)
    # pairs: 5 (a-cat cat-on on-a a-mat two-dogs), 5 (two-dogs dogs-in in-the the-snow dogs-play), 6 (a-bus a-red ...)
    assert found.distinct_2 == pytest.approx((5 / 9 + 5 / 9 + 6 / 8) / 3)
    for metric in ("ROUGE-L", "CIDEr-D"):  # means over images: the best choice for each image is the best of all
        totals = [
            scorer.score(dict(zip(samples, choice, strict=True))).corpus[metric]
            for choice in product(*samples.values())
        ]
        assert found.oracle[metric] == pytest.approx(max(totals))


def test_unequally_many_samples_are_refused() -> None:
    scorer = Scorer({1: ["a"], 2: ["b"]}, "BLEU-1")
    with pytest.raises(DataError, match=r"at least 2, got 1 to 2"):
        describe_samples({1: ["a", "b"], 2: ["a"]}, scorer, FREQUENCIES)
