"""The published table: its numbers as the paper has them, and every row with its circumstances."""

import pytest

from captioning.reproduction import COLUMNS, NOT_STATED, PUBLISHED, WITH, WITHOUT, Circumstances, comparison_table

CORPUS = {"BLEU-4": 0.2, "BLEU-4-no-penalty": 0.25, "METEOR": 0.2, "CIDEr-D": 0.57}


def scored(split):
    return Circumstances("ours", split, "PTB", "5", "argmax", "CIDEr-D", CORPUS)


def test_table_1_is_the_papers():
    hard = {name: rows[1].scores for name, rows in PUBLISHED.items()}
    assert [hard[name]["BLEU-4"] for name in ("flickr8k", "flickr30k", "coco")] == [21.3, 19.9, 25.0]
    assert [hard[name]["METEOR"] for name in ("flickr8k", "flickr30k", "coco")] == [20.30, 18.46, 23.04]
    for rows in PUBLISHED.values():
        for row in rows:
            falling = [row.scores[name] for name in COLUMNS[:4]]
            assert falling == sorted(falling, reverse=True)


def test_a_model_has_a_row_with_and_one_without_brevity_penalty():
    without, with_penalty = scored("test").rows()
    assert (without.brevity, with_penalty.brevity) == (WITHOUT, WITH)
    assert (without.scores["BLEU-4"], with_penalty.scores["BLEU-4"]) == (25, 20)
    assert without.scores["CIDEr-D"] == with_penalty.scores["CIDEr-D"] == pytest.approx(57)


def test_dev_rows_are_not_comparable_with_test_rows():
    for row in scored("dev").rows():
        assert row.comparable.startswith("**not comparable**: dev images")
    without, with_penalty = scored("test").rows()
    assert without.comparable == "with rows of the same brevity penalty"
    assert with_penalty.comparable == "not with rows without penalty"


def test_every_row_states_all_of_its_circumstances():
    rows = [*PUBLISHED["flickr8k"], *scored("dev").rows()]
    lines = comparison_table(rows).splitlines()
    assert len(lines) == 2 + len(rows)
    for row, line in zip(rows, lines[2:], strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        told = [row.split, row.tokenizer, row.beam, row.brevity, row.rule, row.selected_by]
        assert cells[1 + len(COLUMNS) : -1] == told
        assert all(told)
    assert PUBLISHED["flickr8k"][0].beam == NOT_STATED
