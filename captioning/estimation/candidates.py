"""The estimators that are compared: each a loss whose gradient is one estimate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from captioning.attention import Gumbel
from captioning.attention.attention import named
from captioning.attention.selection import Soft
from captioning.decoders.glimpses import EveryGlimpse, Glimpses, read_every_glimpse, read_glimpses
from captioning.errors import ConfigError
from captioning.estimation.problem import Problem
from captioning.estimators import BASELINES, RETURNS, Evidence, score_function, step_marginal
from captioning.estimators.baselines import Learned, SoftPass

SCORE_FUNCTION, STEP_MARGINAL, STRAIGHT_THROUGH, EXPECTED = (
    "score_function",
    "step_marginal",
    "straight_through",
    "expected_context",
)
ESTIMATORS = {
    SCORE_FUNCTION: "REINFORCE along a drawn path",
    STEP_MARGINAL: "the present word summed over all regions, later words along a drawn path",
    STRAIGHT_THROUGH: "a drawn region forward, Gumbel-softmax backward",
    EXPECTED: "soft attention's gradient, for comparison",
}


class Estimator(Protocol):
    """One way to estimate the gradient of a problem."""

    deterministic: bool
    """Whether every estimate is the same."""

    def prepare(self, draws: int) -> None:
        """Bring what it remembers to where it is in the midst of training."""

    def loss(self) -> Tensor:
        """() what has the estimate as its gradient."""


@dataclass(frozen=True)
class Candidate:
    """An estimator by name."""

    estimator: str
    """One of ESTIMATORS."""
    returns: str | None = None
    """One of RETURNS, where paths are drawn."""
    baseline: str | None = None
    """One of BASELINES, likewise."""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.estimator, self.returns, self.baseline)))

    def make(self, problem: Problem, *, samples: int = 2, temperature: float = 1.0) -> Estimator:
        """For one problem; `samples` of a caption for leave_one_out, `temperature` for Gumbel-softmax."""
        if self.estimator == STRAIGHT_THROUGH:
            return Reparametrized(problem, temperature)
        if self.estimator == EXPECTED:
            return Reparametrized(problem, None)
        return Drawn(
            problem,
            returns=str(self.returns),
            baseline=str(self.baseline),
            every=self.estimator == STEP_MARGINAL,
            samples=samples if self.baseline == "leave_one_out" else 1,
        )


def all_candidates(estimators: Sequence[str] = tuple(ESTIMATORS)) -> list[Candidate]:
    """Of these estimators, with every return and baseline. Raises ConfigError for an unknown name."""
    made: list[Candidate] = []
    for name in estimators:
        named("estimator", name, ESTIMATORS)
        if name in (SCORE_FUNCTION, STEP_MARGINAL):
            made += [Candidate(name, returns, baseline) for returns in RETURNS for baseline in BASELINES]
        else:
            made.append(Candidate(name))
    return made


class Reparametrized:
    """−Σ log p with a context that has a gradient of its own: Gumbel straight-through, or (None) the expected one."""

    def __init__(self, problem: Problem, temperature: float | None) -> None:
        self.problem, self.temperature = problem, temperature
        self.deterministic = temperature is None

    def prepare(self, draws: int) -> None:
        """Nothing is remembered."""

    def loss(self) -> Tensor:
        """The mean over captions."""
        problem = self.problem
        selection = Soft() if self.temperature is None else Gumbel(self.temperature)
        read = read_glimpses(problem.decoder, problem.features, problem.inputs, problem.targets, selection=selection)
        return -read.log_likelihoods[problem.is_word].sum() / problem.captions


class Draw(NamedTuple):
    """What one reading along drawn paths gives, (B, M, S, T) for S samples of each caption."""

    said: Tensor
    """What is to be made large, with the gradient that it has of its own."""
    log_probabilities: Tensor
    """Of the choices, with gradient."""
    returns: Tensor
    """What followed each choice."""
    answers: Tensor
    """Boolean, the choices that answer for anything."""
    states: Tensor
    """(B, M, S, T, H) before each choice."""


class Drawn:
    """−Σ (what was said) − Σ_t (G_t − b_t) log π(s_t): `score_function`, and `step_marginal` where `every`.

    A baseline is used first and moves afterwards, as in training, and has seen `prepare`'s draws before.
    """

    deterministic = False

    def __init__(self, problem: Problem, *, returns: str, baseline: str, every: bool, samples: int) -> None:
        if baseline == "leave_one_out" and samples < 2:
            raise ConfigError(f"samples: expected at least 2 for leave_one_out, got {samples}")
        self.problem, self.samples, self.every = problem, samples, every
        self.returns = RETURNS[returns]
        kind, weight = BASELINES[baseline], problem.decoder.embedding.weight
        made = kind(problem.state_width) if issubclass(kind, Learned) else kind()
        self.baseline = made.to(weight.device, weight.dtype)

    def prepare(self, draws: int) -> None:
        """Let running means see some draws, and fit a learned baseline to them."""
        with torch.no_grad():
            seen = [self.draw() for _ in range(draws)]
        for each in seen:
            self.baseline.update(each.returns, each.answers)
        if isinstance(self.baseline, Learned):
            _fit(self.baseline, seen)

    def loss(self, paths: Tensor | None = None) -> Tensor:
        """The mean over captions and samples; paths (B, M · S, T) are followed instead of drawn ones."""
        draw = self.draw(paths)
        evidence = Evidence(draw.states, self._soft_returns(draw))
        compared = self.baseline(draw.returns, draw.answers, evidence)
        surrogate = score_function(draw.log_probabilities, draw.returns, compared.detach(), draw.answers)
        self.baseline.update(draw.returns, draw.answers)
        return (surrogate.sum() - draw.said.sum()) / (self.problem.captions * self.samples)

    def draw(self, paths: Tensor | None = None) -> Draw:
        """Read the captions along drawn paths, or those handed in."""
        problem = self.problem.repeated(self.samples)
        given = (problem.decoder, problem.features, problem.inputs, problem.targets)
        found: Glimpses | EveryGlimpse
        if self.every:
            found = read_every_glimpse(*given, paths=paths)
            said, rewards, answers = step_marginal(found.log_weights, found.log_likelihoods, problem.is_word)
        else:
            found = read_glimpses(*given, paths=paths)
            said = rewards = found.log_likelihoods.masked_fill(~problem.is_word, 0)
            answers = problem.is_word
        assert found.log_probabilities is not None
        parts = (said, found.log_probabilities, self.returns(rewards, answers), answers, found.states)
        return Draw(*(each.unflatten(1, (-1, self.samples)) for each in parts))

    def _soft_returns(self, draw: Draw) -> Tensor | None:
        """The returns of the same captions with the expected context, for the baseline that asks for them."""
        if not isinstance(self.baseline, SoftPass):
            return None
        problem = self.problem
        with torch.no_grad():
            read = read_glimpses(problem.decoder, problem.features, problem.inputs, problem.targets, selection=Soft())
        rewards, answers = read.log_likelihoods.unsqueeze(2), problem.is_word.unsqueeze(2)
        if self.every:
            weights = torch.zeros_like(rewards).unsqueeze(-1)  # one way to go on, the expected one
            _, rewards, answers = step_marginal(weights, rewards.unsqueeze(-1), answers)
        return self.returns(rewards, answers).expand_as(draw.returns)


def _fit(baseline: Learned, draws: Sequence[Draw]) -> None:
    """Minimize its loss on some draws; few steps from zero, so that few draws are not learned by heart."""
    parts = zip(*((each.returns, each.answers, each.states) for each in draws), strict=True)
    returns, answers, states = (torch.cat(each, 2) for each in parts)
    optimizer = torch.optim.LBFGS(baseline.parameters(), max_iter=20, line_search_fn="strong_wolfe")

    def evaluate() -> Tensor:
        optimizer.zero_grad()
        loss = baseline.loss(returns, answers, Evidence(states=states)) / answers.sum().clamp(min=1)
        loss.backward()
        return loss

    optimizer.step(evaluate)
