"""What the run folders hold, as one table: a row a run, and its file results.csv."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from captioning.ablation.counts import Counts, read_counts
from captioning.ablation.folder import (
    COUNTS,
    ENVIRONMENT,
    FAILURE,
    REFERENCES,
    RESULT,
    SCORES,
    State,
    read_json,
)
from captioning.ablation.grid import Plan
from captioning.ablation.runner import Placed

COSTS = {
    "training_seconds": "minutes of training",
    "milliseconds_an_image": "ms to caption an image",
    "peak_memory_mb": "peak memory, MB",
    "parameters": "parameters",
}
"""What a run costs: name in result.json -> name for people."""


@dataclass(frozen=True)
class RunResult:
    """One run, done or not."""

    variant: str
    seed: int
    name: str
    folder: Path
    state: State
    error: str = ""
    """Why there is no result."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Measure -> value."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """See `COSTS`."""
    environment: Mapping[str, Any] = field(default_factory=dict)

    def counts(self) -> Counts:
        """The counts of its images."""
        return read_counts(self.folder / COUNTS)

    def references(self) -> dict[str, list[str]]:
        """The captions that it was scored against."""
        return {image: list(captions) for image, captions in read_json(self.folder / REFERENCES).items()}


def read_result(placed: Placed) -> RunResult:
    """What one folder holds."""
    folder, state = placed.folder, placed.state
    found = read_json(folder / RESULT)
    return RunResult(
        variant=placed.run.variant.name,
        seed=placed.run.seed,
        name=placed.run.name,
        folder=folder,
        state=state,
        error="" if state == "done" else last_error(folder),
        scores=read_json(folder / SCORES).get("scores", {}) if state == "done" else {},
        costs={name: found[name] for name in COSTS if name in found},
        environment=read_json(folder / ENVIRONMENT) if state == "done" else {},
    )


def last_error(folder: Path) -> str:
    """Why a run has no result, in one line."""
    error = read_json(folder / FAILURE).get("error", "not made yet")
    return " ".join(str(error).split())


def best_so_far(plan: Plan, placed: Sequence[Placed]) -> str:
    """The variant of the largest mean of the first judged measure."""
    measure = plan.study.judged[0]
    values: dict[str, list[float]] = {}
    for each in placed:
        if each.state == "done":
            score = read_json(each.folder / SCORES)["scores"].get(measure)
            values.setdefault(each.run.variant.name, []).extend([] if score is None else [score])
    means = {name: fmean(found) for name, found in values.items() if found}
    if not means:
        return ""
    best = max(means, key=means.__getitem__)
    return f"best: {best} {measure} {means[best]:.3f}"


def write_csv(path: Path, results: Sequence[RunResult], axes: Mapping[str, Mapping[str, str]]) -> None:
    """One row a run: what it is, how it ended, its measures and costs. `axes`: variant -> axis -> label."""
    measures = list(dict.fromkeys(name for each in results for name in each.scores))
    names = list(dict.fromkeys(axis for labels in axes.values() for axis in labels))
    header = ["variant", *names, "seed", "state", *measures, *COSTS, "run", "error"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for each in results:
            labels = [axes[each.variant].get(axis, "") for axis in names]
            values = [each.scores.get(name, "") for name in measures] + [each.costs.get(name, "") for name in COSTS]
            writer.writerow([each.variant, *labels, each.seed, each.state, *values, each.name, each.error])
