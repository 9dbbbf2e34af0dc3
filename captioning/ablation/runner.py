"""Make what is missing of a study, and nothing twice."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from captioning.ablation.engines import Engine, Job
from captioning.ablation.folder import (
    FAILURE,
    LOCK,
    State,
    find_folder,
    locked,
    read_json,
    request_of,
    state_of,
    write_json,
)
from captioning.ablation.grid import Plan, Run
from captioning.errors import ConfigError

RUNS, STUDY = "runs", "study.json"


@dataclass(frozen=True)
class Placed:
    """A run and its folder."""

    run: Run
    folder: Path

    @property
    def state(self) -> State:
        """As the folder tells it."""
        return state_of(self.folder)


Progress = Callable[[Sequence[Placed]], None]
"""Told all runs at the start, and again whenever one has ended."""


def place(plan: Plan, output: Path) -> list[Placed]:
    """Where each run of the plan lies or will lie."""
    return [Placed(run, find_folder(output.resolve() / RUNS, run)) for run in plan.runs]


def make_runs(
    plan: Plan, output: Path, engine: Engine, *, retry_failed: bool = False, progress: Progress | None = None
) -> list[Placed]:
    """All runs of the plan, made where they are missing. Raises ConfigError where another study works in `output`.

    A run that failed is final unless `retry_failed`; one that was killed is done again.
    """
    placed = place(plan, output)
    tell = progress or (lambda placed: None)
    try:
        with locked(output / LOCK, wait=False):
            write_json(output / STUDY, describe(plan))
            tell(placed)
            for _ in engine([_job(each) for each in placed if _to_do(each, retry_failed=retry_failed)]):
                tell(placed)
    except BlockingIOError as error:
        raise ConfigError(f"{output}: another captioning ablate works in this folder; wait, or --output another") from (
            error
        )
    return placed


def describe(plan: Plan) -> dict[str, object]:
    """The plan in plain types, for the study's folder."""
    study = plan.study
    return {
        "name": study.name,
        "question": study.question,
        "split": study.split,
        "reference": study.reference,
        "judged": list(study.judged),
        "seeds": list(study.seeds),
        "variants": {variant.name: dict(variant.settings) for variant in plan.variants},
        "runs": {run.name: run.identity for run in plan.runs},
    }


def _job(placed: Placed) -> Job:
    return Job(placed.folder, request_of(placed.run))


def _to_do(placed: Placed, *, retry_failed: bool) -> bool:
    return placed.state == "missing" or (placed.state == "failed" and (retry_failed or was_killed(placed.folder)))


def was_killed(folder: Path) -> bool:
    """Whether a failed run was killed from outside: that says nothing of its config."""
    return bool(read_json(folder / FAILURE).get("killed"))
