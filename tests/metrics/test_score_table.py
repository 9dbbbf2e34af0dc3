"""Scores for people: every row keeps its cells whatever the names (case H61)."""

import re

import pytest

from captioning.metrics.suite import Scores
from captioning.metrics.table import CONVENTION, markdown_table, score_table

NAMES = ["soft|a", "lr=0.1|b", "two\nlines", "back\\slash|", "plain"]


def parsed(table: str) -> list[list[str]]:
    """Cells of a Markdown table, split at bars that are not escaped, with the escapes undone."""
    rows = [re.split(r"(?<!\\)(?:\\\\)*\|", line) for line in table.splitlines() if line.startswith("|")]
    unescape = lambda cell: re.sub(r"\\(.)", r"\1", cell.strip()).replace("<br>", "\n")  # noqa: E731
    return [[unescape(cell) for cell in row[1:-1]] for row in rows]


def test_names_come_back_and_numbers_keep_their_columns() -> None:
    runs = {name: Scores({"BLEU-4": 0.01 * index, "CIDEr-D": 1.5}, {}) for index, name in enumerate(NAMES, start=1)}
    heading, rule, *rows = parsed(score_table(runs, title="run"))
    assert heading == ["run", "BLEU-4", "CIDEr-D"]
    assert {len(row) for row in (heading, rule, *rows)} == {3}
    assert [row[0] for row in rows] == NAMES
    assert [float(row[1]) for row in rows] == pytest.approx([1, 2, 3, 4, 5])
    assert {row[2] for row in rows} == {"1.5000"}


def test_unavailable_metrics_are_shown_with_their_reason() -> None:
    runs = {"a": Scores({"BLEU-4": 0.5}, {}, {"METEOR": "not here"}), "b": Scores({"METEOR": 0.25}, {})}
    table = score_table(runs)
    assert parsed(table)[2:] == [["a", "50.00", "n/a"], ["b", "n/a", "25.00"]]
    assert "METEOR n/a: not here" in table
    assert CONVENTION in table


def test_lines_are_equally_long() -> None:
    table = markdown_table([["run", "BLEU-4"], ["a long name", "1.00"], ["b|c", "10.00"]])
    assert len({len(line) for line in table.splitlines()}) == 1
