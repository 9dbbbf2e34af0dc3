"""ROUGE-L against hand-computed values and the table of lengths."""

import random

import pytest

from captioning.metrics.rouge import common_subsequences, rouge_l, with_mixed_fractions


def by_table(first: str, second: str) -> int:
    rows = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, left in enumerate(first):
        for j, right in enumerate(second):
            rows[i + 1][j + 1] = rows[i][j] + 1 if left == right else max(rows[i][j + 1], rows[i + 1][j])
    return rows[-1][-1]


def value(caption: str, *references: str) -> float:
    return rouge_l(caption.split(), [reference.split() for reference in references])


def test_bits_find_what_the_table_finds() -> None:
    generator = random.Random(3)
    for _ in range(500):
        first, second = ("".join(generator.choices("abc", k=generator.randint(0, 71))) for _ in range(2))
        assert common_subsequences(first, [second, "x", "", first]) == [by_table(first, second), 0, 0, len(first)]


def test_values_by_hand() -> None:
    # 5 of 6 words on both sides
    assert value("two dogs run in the snow", "two dogs play in the snow") == pytest.approx(5 / 6)
    # precision 1, recall 5/6: 2.44 * 5/6 / (5/6 + 1.44)
    expected = 2.44 * (5 / 6) / (5 / 6 + 1.44)
    assert value("a bus on a street", "a red bus on a street") == pytest.approx(expected)


def test_precision_and_recall_may_come_from_different_references() -> None:
    # precision 2/2 from the first, recall 1/1 from the second
    assert value("a dog", "a big dog", "dog") == pytest.approx(1.0)


def test_identity_is_maximal_and_order_of_references_irrelevant() -> None:
    assert value("a dog runs", "a cat", "a dog runs") == 1.0
    assert value("a dog sat", "a cat", "a dog runs on") == value("a dog sat", "a dog runs on", "a cat")


def test_empty_and_one_word_captions() -> None:
    assert value("", "a dog") == 0.0
    assert value("a dog", "") == 0.0
    assert value("", "") == 0.0
    assert value("dog", "dog") == 1.0
    assert value("cat", "dog", "") == 0.0


def test_a_number_and_a_fraction_after_it_are_one_word_as_in_the_judge() -> None:
    assert with_mixed_fractions(["a", "22", "3/4", "mile"]) == ["a", "22 3/4", "mile"]
    assert with_mixed_fractions(["1", "1/2", "1/2"]) == ["1 1/2", "1/2"]
    # Its tokenizer does not join these.
    apart = ["12345", "3/4", "3.5", "1/2", "22", "12345/4", "22", "3/4/5", "-2", "1/2"]
    assert with_mixed_fractions(apart) == apart
    # One of 3 words in common with one of 3 words: P = R = 1 / 3; as two words they would share two of four.
    assert value("a 22 3/4 mile", "the 22 3/4 road") == pytest.approx(1 / 3)
