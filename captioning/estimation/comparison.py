"""Measuring estimators on one problem, one after the other and with the same seed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from captioning.estimation.candidates import Candidate, Estimator
from captioning.estimation.problem import Exact, Problem, exact_gradient
from captioning.estimators import Moments, Quality

WARM_UP = 50
"""Draws that baselines have seen before anything is measured."""


@dataclass(frozen=True)
class Measured:
    """An estimator's row."""

    candidate: Candidate
    """Which."""
    qualities: dict[str, Quality]
    """Part of the gradient -> how good it is there."""
    seconds: float
    """Of one estimate, forward and backward, the median: processor time, so that a busy machine counts no more than an
    idle one; on a GPU the clock's."""


@dataclass(frozen=True)
class Comparison:
    """All rows, and what they were measured on."""

    rows: list[Measured]
    """In the order of the candidates."""
    draws: int
    """Estimates of each; 2 of a deterministic one."""
    paths: int | None
    """How many ways to look were listed for the exact gradient; None: none was, so no bias is known."""


def compare(
    problem: Problem,
    candidates: Sequence[Candidate],
    *,
    draws: int = 200,
    samples: int = 2,
    temperature: float = 1.0,
    exact: bool = True,
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Draw so many estimates of each candidate. `exact`: list all ways to look, too, so that bias is known."""
    known = exact_gradient(problem, draws) if exact else None
    rows = []
    for done, candidate in enumerate(candidates):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            estimator = candidate.make(problem, samples=samples, temperature=temperature)
            rows.append(_measure(problem, candidate, estimator, draws=draws, exact=known))
        if progress is not None:
            progress(done + 1, len(candidates))
    return Comparison(rows, draws, problem.paths if exact else None)


def _measure(
    problem: Problem, candidate: Candidate, estimator: Estimator, *, draws: int, exact: Exact | None
) -> Measured:
    estimator.prepare(WARM_UP)
    moments, seconds = Moments(), []
    clock = time.process_time if problem.words.device.type == "cpu" else time.perf_counter
    for _ in range(2 if estimator.deterministic else draws):
        started = clock()
        estimate = problem.gradient(estimator.loss())
        seconds.append(clock() - started)
        moments.add(estimate)
    gradient, rare = (None, None) if exact is None else exact
    rare = None if estimator.deterministic else rare  # nothing is drawn, so nothing is missed
    qualities = {name: moments.quality(gradient, rare, part) for name, part in problem.parts.items()}
    return Measured(candidate, qualities, median(seconds))
