"""The seam between search and model: what a search asks of a model, and what it hands back.

A search knows no model, only a `Step`; so it meets a transition table in tests and a recurrent network in
life.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from torch import Tensor

State = TypeVar("State")


class StepOutput(NamedTuple, Generic[State]):
    """What a model says after it has read one more word of each hypothesis."""

    state: State
    """The state after that word."""
    log_probabilities: Tensor
    """(B, K, V) log-probability of each next word; each row's probabilities sum to one."""
    weights: Tensor
    """(B, K, R) the attention weights with which the next word is chosen."""
    details: Mapping[str, Tensor] = {}
    """What else the model reports of that choice, by name: (B, K, ...), such as the weights of each head."""


class Step(Protocol[State]):
    """One step of a captioner for B images with K hypotheses each; the search never looks into the state.

    What is the same for all hypotheses of an image (its regions, its projected keys) is kept once an image.
    """

    def start(self) -> State:
        """The state of B images before their first word, one hypothesis each (K = 1)."""

    def advance(self, state: State, words: Tensor) -> StepOutput[State]:
        """Read `words` (B, K) int64, the latest word of each hypothesis."""

    def reorder(self, state: State, parents: Tensor) -> State:
        """The state whose hypothesis k of image b is parents[b, k] of the old one; parents (B, K') int64."""

    def select(self, state: State, images: Tensor) -> State:
        """The state of these images only: `images` (B') int64 are rows of the old state."""


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A caption, as far as a search took it."""

    words: tuple[int, ...]
    """T word ids, without START and END."""
    log_probabilities: tuple[float, ...]
    """One a word, and END's after them if it is finished."""
    score: float
    """What the ranking compared: the sum of the log-probabilities over the ranking's length penalty."""
    finished: bool
    """Whether the model ended it; False: it was cut off."""
    weights: Tensor
    """(T, R) the attention weights of each word; END's are left out."""
    details: Mapping[str, Tensor] = field(default_factory=dict)
    """(T, ...) what else the model reported of each word, by name."""

    @property
    def log_probability(self) -> float:
        """Of the whole caption, END included if it is finished."""
        return sum(self.log_probabilities)
