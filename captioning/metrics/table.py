"""Scores as a table for people: aligned text for the terminal, which is Markdown, too."""

import math
from collections.abc import Mapping, Sequence

from captioning.metrics.suite import Scores

CONVENTION = "BLEU, METEOR, ROUGE-L and SPICE in percent; CIDEr from 0 to 10 (x100 gives what most papers print)."
"""Belongs beside every table that `score_table` makes."""


def score_table(runs: Mapping[str, Scores], *, title: str = "") -> str:
    """One row a run, one column a metric; "n/a" where a metric is unavailable.

    The reason of each "n/a" and the convention stand below the table. Bars and line breaks in names are
    escaped, so that every row has the same cells.
    """
    metrics = list(dict.fromkeys(name for run in runs.values() for name in (*run.corpus, *run.unavailable)))
    rows = [[title, *metrics]]
    for name, scores in runs.items():
        rows.append([name, *(_cell(scores, metric) for metric in metrics)])
    reasons = dict.fromkeys(
        f"{metric} n/a: {reason}" for run in runs.values() for metric, reason in run.unavailable.items()
    )
    return "\n".join([markdown_table(rows), "", CONVENTION, *reasons])


def metric_table(scores: Scores) -> str:
    """One row a metric: its value and, where there is one, the 95 % interval; reasons and the convention below."""
    rows = [["metric", "value", "95 % interval"]]
    for name in (*scores.corpus, *scores.unavailable):
        interval = scores.intervals.get(name)
        bounds = " to ".join(_number(name, bound) for bound in interval) if interval else ""
        rows.append([name, _cell(scores, name), bounds])
    reasons = [f"{metric} n/a: {reason}" for metric, reason in scores.unavailable.items()]
    return "\n".join([markdown_table(rows), "", CONVENTION, *reasons])


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, aligned for reading as text; the first row is the heading, the first column text."""
    cells = [[escape_cell(cell) for cell in row] for row in rows]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    heading, *body = [_line(row, widths) for row in cells]
    rule = [width * "-" if index == 0 else (width - 1) * "-" + ":" for index, width in enumerate(widths)]
    return "\n".join([heading, _line(rule, widths), *body])


def escape_cell(text: str) -> str:
    """Text that stays in one cell: a bar becomes `\\|`, a line break `<br>`."""
    return "<br>".join(text.replace("\\", "\\\\").replace("|", "\\|").splitlines())


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]) + " |"


def _cell(scores: Scores, metric: str) -> str:
    if math.isnan(scores.corpus.get(metric, math.nan)):
        return "n/a"
    return _number(metric, scores.corpus[metric])


def _number(metric: str, value: float) -> str:
    return f"{value:.4f}" if metric.startswith("CIDEr") else f"{100 * value:.2f}"
