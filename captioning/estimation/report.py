"""A comparison of estimators as Markdown and as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from captioning.estimation.candidates import ESTIMATORS
from captioning.estimation.comparison import Comparison, Measured
from captioning.estimators import Quality
from captioning.estimators.variance import SURE
from captioning.metrics.table import markdown_table

HEADING = ("estimator", "returns", "baseline", "bias", "chance", "biased", "variance", "SNR", "ms", "variance × ms")
READING = (
    "*bias*: |mean of the estimates − exact| / |exact|; *chance*: its standard error, what an unbiased estimator "
    "shows in root mean square; *biased*: whether bias is above {sure:.0f} times that (by chance in fewer than 3 of "
    "1,000). *variance*: expected squared distance of an estimate from their mean; *SNR*: |mean|² / variance, which "
    "chance alone brings to {floor:.3g}. *ms*: processor time of an estimate. *variance × ms*: how noisy it is "
    "at equal time, as a multiple of {reference}."
)
VERDICTS = {True: "yes", False: "no", None: "unclear"}
UNSEEN = (
    "*unclear*: the difference may lie on ways to look that are rarer than one in {draws} draws and were not seen; "
    "then the variance that is told is too small, too. They hold {shares}. More draws tell."
)
UNKNOWN = "The ways to look are too many to list, so the exact gradient and with it any bias is unknown here."


def to_markdown(comparison: Comparison, conditions: Mapping[str, Any]) -> str:
    """A table for each part of the gradient, what was measured on, and how to read it."""
    reference = _reference(comparison)
    sections = [
        f"## Gradient of the {part}\n\n{markdown_table(_rows(comparison, part))}" for part in reference.qualities
    ]
    told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in conditions.items())
    legend = READING.format(sure=SURE, floor=1 / comparison.draws, reference=reference.candidate)
    names = sorted({row.candidate.estimator for row in comparison.rows}, key=list(ESTIMATORS).index)
    kinds = "\n".join(f"- `{name}`: {ESTIMATORS[name]}." for name in names)
    note = UNKNOWN if comparison.paths is None else _unseen(comparison)
    return "\n\n".join(["# Estimators of hard attention's gradient", told, *sections, legend, note, kinds]) + "\n"


def to_plain(comparison: Comparison, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Everything for JSON; an infinite ratio (no variance at all) is null."""
    return {**conditions, "paths": comparison.paths, "rows": [_plain_row(row) for row in comparison.rows]}


def _unseen(comparison: Comparison) -> str:
    """How much of the exact gradient hangs on ways to look that are likely to be missed."""
    parts = comparison.rows[0].qualities
    shares = " and ".join(f"{quality.unseen:.0%} of the gradient of the {name}" for name, quality in parts.items())
    return UNSEEN.format(draws=comparison.draws, shares=shares)


def _reference(comparison: Comparison) -> Measured:
    """The first row whose estimates vary, else the first."""
    varying = (row for row in comparison.rows if all(each.variance > 0 for each in row.qualities.values()))
    return next(varying, comparison.rows[0])


def _rows(comparison: Comparison, part: str) -> list[Sequence[str]]:
    reference = _reference(comparison)
    unit = reference.qualities[part].variance * reference.seconds
    rows: list[Sequence[str]] = [HEADING]
    for row in comparison.rows:
        quality = row.qualities[part]
        cost = quality.variance * row.seconds / unit if unit else float("nan")
        names = (row.candidate.estimator, row.candidate.returns or "", row.candidate.baseline or "")
        rows.append((*names, *_cells(quality), f"{1e3 * row.seconds:.1f}", f"{cost:.3g}"))
    return rows


def _cells(quality: Quality) -> tuple[str, ...]:
    known = quality.bias is not None
    return (
        f"{quality.bias:.3f}" if known else "unknown",
        f"{quality.bias_error:.3f}" if known else "",
        VERDICTS[quality.biased] if known else "",
        f"{quality.variance:.3g}",
        f"{quality.signal_to_noise:.3g}",
    )


def _plain_row(row: Measured) -> dict[str, Any]:
    candidate = row.candidate
    parts = {name: _plain_quality(quality) for name, quality in row.qualities.items()}
    names = {"estimator": candidate.estimator, "returns": candidate.returns, "baseline": candidate.baseline}
    return {**names, "seconds": row.seconds, "parts": parts}


def _plain_quality(quality: Quality) -> dict[str, Any]:
    values = {**quality._asdict(), "biased": quality.biased}
    return {name: None if value == float("inf") else value for name, value in values.items()}
