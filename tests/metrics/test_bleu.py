"""BLEU against hand-computed values, nltk and the cases H42 and H43."""

import math
import random

import numpy as np
import pytest
from nltk.translate.bleu_score import corpus_bleu as nltk_bleu

from captioning.metrics.bleu import bleu, bleu_statistics, corpus_bleu
from captioning.metrics.ngrams import Compared


def one(caption: str, *references: str, brevity_penalty: bool = True) -> list[float]:
    texts = [reference.split() for reference in references]
    return corpus_bleu([caption.split()], [texts], brevity_penalty=brevity_penalty)


def drawn_corpus(images: int = 23) -> tuple[list[list[str]], list[list[list[str]]]]:
    generator = random.Random(5)
    draw = lambda: [generator.choice("abc") for _ in range(generator.randint(4, 11))]  # noqa: E731
    captions = [draw() for _ in range(images)]
    return captions, [[draw() for _ in range(generator.randint(1, 7))] for _ in range(images)]


def test_values_by_hand() -> None:
    # 4 of 5 words, 2 of 4 pairs, no triple; equal lengths
    assert one("a man on a horse", "a man rides a horse")[:2] == pytest.approx([0.8, math.sqrt(0.4)])
    assert one("a man on a horse", "a man rides a horse")[2] < 1e-4
    # of 5 words, 4 pairs, 3 triples, 2 quadruples 5, 3, 2, 1 match; one word shorter than the reference
    penalty = math.exp(1 - 6 / 5)
    precisions = [1, 3 / 4, 2 / 3, 1 / 2]
    expected = [penalty * math.prod(precisions[:n]) ** (1 / n) for n in range(1, 5)]
    assert one("a b c d f", "a b c d e f") == pytest.approx(expected)


def test_matches_are_clipped_at_the_largest_count_in_one_reference() -> None:
    references = [text.split() for text in ("the cat the", "the dog")]
    compared = Compared.one_each([["the"] * 4], [references])
    assert bleu_statistics(compared).tolist() == [[2, 0, 0, 0, 4, 3, 2, 1, 4, 3]]


def test_of_equally_near_references_the_shorter_counts_in_any_order() -> None:
    references = ["a b c d", "a b c d e f"]
    for order in (references, references[::-1]):
        assert one("a b c d e", *order) == pytest.approx([1.0] * 4)


def test_the_nearest_reference_counts_not_the_shortest() -> None:
    values = one("a dog runs on the", "dog", "a dog runs on the grass")
    assert values == pytest.approx([math.exp(1 - 6 / 5)] * 4)


def test_without_brevity_penalty_short_captions_are_not_punished() -> None:
    assert one("a dog runs on", "a dog runs on the grass", brevity_penalty=False) == pytest.approx([1.0] * 4)


def test_long_captions_are_never_rewarded() -> None:
    with_penalty = one("a b c d e f g", "a b c d e")
    assert with_penalty == one("a b c d e f g", "a b c d e", brevity_penalty=False)


@pytest.mark.parametrize("longest", [1, 2, 3, 4])
def test_agrees_with_nltk(longest: int) -> None:
    captions, references = drawn_corpus()
    expected = nltk_bleu(references, captions, weights=[1 / longest] * longest)
    assert corpus_bleu(captions, references)[longest - 1] == pytest.approx(expected, abs=1e-9)


def test_corpus_is_the_sum_of_counts_not_the_mean_of_values() -> None:
    captions, references = drawn_corpus()
    rows = bleu_statistics(Compared.one_each(captions, references))
    corpus = corpus_bleu(captions, references)
    np.testing.assert_array_equal(bleu(np.sum(rows, axis=0)), corpus)
    assert abs(bleu(rows).mean(axis=0) - corpus).max() > 1e-3


def test_an_image_may_have_several_captions() -> None:
    captions, references = drawn_corpus()
    alone = bleu_statistics(Compared.one_each(captions, references))
    images = np.array([3, 0, 3, 22])
    several = bleu_statistics(Compared([captions[3], captions[0], ["a"], captions[22]], images, references))
    np.testing.assert_array_equal(several[[0, 1, 3]], alone[[3, 0, 22]])


def test_empty_and_one_word_captions() -> None:
    assert one("", "a dog") == [0.0] * 4
    assert one("", "") == [0.0] * 4
    assert one("dog", "dog")[0] == pytest.approx(1.0)
    assert one("dog", "dog")[3] < 1e-3
