"""The report's charts, from the findings."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from captioning.ablation.charts import Curve, forest, learning_curves, score_against_cost
from captioning.ablation.findings import Findings
from captioning.ablation.folder import REQUEST, TRAINING, read_json
from captioning.ablation.results import COSTS, RunResult
from captioning.document import Block, Chart, Heading

_SHOWN_COSTS = ("training_seconds", "peak_memory_mb", "parameters")


def figures(findings: Findings) -> Iterator[Block]:
    """Forest plot, learning curves, score against cost; each where there is something to draw."""
    if findings.comparisons:
        yield Chart(
            "forest",
            forest(findings.comparisons),
            "Differences from the reference with 95 % intervals: over images, for the models as trained, and over "
            "trainings, where there are seeds enough.",
        )
    runs = {variant: runs for variant, runs in findings.done.items() if runs}
    curves = {variant: [curve for run in of for curve in [_curve(run)] if curve[0]] for variant, of in runs.items()}
    curves = {variant: of for variant, of in curves.items() if of}
    if any(len(epochs) > 1 for of in curves.values() for epochs, _ in of):  # one validation is no curve
        monitor = _monitor(next(iter(runs.values()))[0])
        yield Heading("Learning curves")
        caption = f"{monitor} of free-running captions on the validation images; thin: a seed, thick: their mean."
        yield Chart("curves", learning_curves(curves, monitor), caption)
    measure = next((name for name in findings.study.judged if name in findings.measures), None)
    if runs and measure is not None:
        yield Heading("Score against cost")
        caption = f"{measure} against what a run takes; bars reach from the least to the most over seeds."
        yield Chart("cost", _cost_chart(runs, measure), caption)


def _cost_chart(runs: Mapping[str, Sequence[RunResult]], measure: str) -> str:
    scores = {variant: [run.scores[measure] for run in of] for variant, of in runs.items()}
    scale = {"training_seconds": 60.0}
    costs = {
        COSTS[cost]: {variant: [run.costs[cost] / scale.get(cost, 1) for run in of] for variant, of in runs.items()}
        for cost in _SHOWN_COSTS
    }
    return score_against_cost(scores, costs, measure)


def _monitor(run: RunResult) -> str:
    return str(read_json(run.folder / REQUEST)["config"]["trainer"]["monitor"])


def _curve(run: RunResult) -> Curve:
    """The watched metric after each validated epoch, from the run's log."""
    column = f"validation/{_monitor(run)}"
    epochs, values = [], []
    for path in sorted((run.folder / TRAINING / "log").glob("version_*/metrics.csv"), key=_version):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row.get(column):
                    epochs.append(float(row["epoch"]) + 1)
                    values.append(float(row[column]))
    return epochs, values


def _version(path: Path) -> int:
    return int(path.parent.name.removeprefix("version_"))
