"""Beam search over images × hypotheses at once."""

from collections.abc import Sequence
from typing import Generic

import torch
from torch import Tensor

from captioning.decoding.constraints import Constraints
from captioning.decoding.finalists import Finalists
from captioning.decoding.ranking import LengthPenalty, length_penalty
from captioning.decoding.step import Hypothesis, State, Step
from captioning.decoding.trace import WEIGHTS, Choice, Trace
from captioning.errors import CaptioningError, ConfigError
from captioning.tensors.shapes import check_shape

LEAVING_SHARE = 0.25  # Leaving copies the memory of all images that stay, so a few are let gather first.


@torch.no_grad()
def beam_search(
    step: Step[State],
    *,
    start: Tensor,
    end: int,
    beam_size: int,
    maximum_length: int,
    forbidden: Sequence[int] = (),
    minimum_length: int = 0,
    ranking: str | LengthPenalty = "average",
    stop_when_full: bool = False,
) -> list[list[Hypothesis]]:
    """Search the captions of largest Σ_t log p(y_t | y_<t, image) / penalty(n); for each image, best first.

    At each step the best `beam_size` continuations of an image's open hypotheses are kept, compared by their
    sums; those that end are set aside, the others stay open. What has not ended after `maximum_length`
    choices (END is one) is cut off. Up to `beam_size` captions an image come back: those that ended, by
    score, then, while there is room, those cut off, by score (`finished` is False); always at least one.

    **An image is done** when its `beam_size` places are full and no open hypothesis can still take one: the
    best open sum, divided by the penalty of the longest length, does not exceed the worst kept score. This
    bound holds for every ranking (`ranking.py` says why), so the captions are those of a search that always
    ran to the longest length. With `average` it seldom stops early, since a mean can always rise.
    `stop_when_full` is the classic rule instead: done as soon as the places are full; fewer steps, but a
    later caption of better score may be missed.

    `start` (B,) int64 is the word that each image's caption is begun with (START). `forbidden` words are
    never chosen and the rest is not renormalised, so scores are the model's own. Sums are float32 whatever
    the model's type. The images of a batch do not influence one another. Raises ConfigError for sizes that
    make no search.
    """
    if beam_size < 1:
        raise ConfigError(f"beam_size: expected at least 1, got {beam_size}")
    check_shape("start", start, "B")
    constraints = Constraints(end, maximum_length, tuple(forbidden), minimum_length)
    search = _Search(step, start, constraints, beam_size, length_penalty(ranking))
    return search.run(stop_when_full)


def best_continuations(log_probabilities: Tensor, totals: Tensor, width: int) -> Choice:
    """The `width` largest of totals[b, k] + log_probabilities[b, k, v]; fewer if there are not so many pairs.

    `log_probabilities` (B, K, V), `totals` (B, K) float32. The best of all pairs lie among the best of each
    hypothesis, so no sum over the whole vocabulary is formed.
    """
    likeliest, words = log_probabilities.topk(min(width, log_probabilities.shape[-1]))  # (B, K, k)
    likeliest = likeliest.float()
    sums = (totals.unsqueeze(-1) + likeliest).flatten(1)  # (B, K * k)
    best, flat = sums.topk(min(width, sums.shape[1]))
    return Choice(
        totals=best,
        log_probabilities=likeliest.flatten(1).gather(1, flat),
        words=words.flatten(1).gather(1, flat),
        parents=flat // words.shape[-1],
    )


class _Search(Generic[State]):
    """The open hypotheses: K places for each image that is not done; a total of −∞ is an empty place."""

    def __init__(
        self,
        step: Step[State],
        start: Tensor,
        constraints: Constraints,
        beam_size: int,
        penalty: LengthPenalty,
    ) -> None:
        self.step, self.constraints, self.beam_size, self.penalty = step, constraints, beam_size, penalty
        self.trace, self.finalists = Trace(), Finalists(len(start), beam_size, start.device)
        self.state, self.words = step.start(), start.unsqueeze(1)
        self.totals = torch.zeros(self.words.shape, device=start.device)
        self.images = torch.arange(len(start), device=start.device)  # The image of each row...
        self.rows = self.images  # ... and the row of each image, where it still has one.

    def run(self, stop_when_full: bool) -> list[list[Hypothesis]]:
        longest = self.constraints.maximum_length
        for length in range(longest):
            parents = self._choose(length)
            done = self._done(stop_when_full)
            if done.all() or length + 1 == longest:
                break
            self._go_on(parents, done)
        self._set_aside(self.images, self.totals, len(self.trace), finished=False)
        return self.finalists.hypotheses(self.trace)

    def _choose(self, length: int) -> Tensor:
        """Read the latest words, choose the next ones and set aside what ended; returns the parents."""
        said = self.step.advance(self.state, self.words)
        self.state = said.state
        allowed = self.constraints.apply(said.log_probabilities, length)
        choice = best_continuations(allowed, self.totals, self.beam_size)
        if choice.totals.isnan().any():
            raise CaptioningError(
                f"log_probabilities: expected numbers, got NaN for word {length + 1}; "
                "look for NaN in the features or in the model's weights"
            )
        stuck = choice.totals.amax(1) == -torch.inf
        if stuck.any():  # No allowed continuation at all: what was open is cut off here.
            self._set_aside(self.images[stuck], self.totals[stuck], length, finished=False)
        self.trace.append(self.rows, choice, {**said.details, WEIGHTS: said.weights})
        ended = choice.words == self.constraints.end
        if ended.any():
            ended_totals = choice.totals.masked_fill(~ended, -torch.inf)
            self._set_aside(self.images, ended_totals, length + 1, finished=True)
        self.words, self.totals = choice.words, choice.totals.masked_fill(ended, -torch.inf)
        return choice.parents

    def _set_aside(self, images: Tensor, totals: Tensor, length: int, *, finished: bool) -> None:
        scores = totals / self.penalty(max(length, 1))
        self.finalists.add(images, scores, last=length - 1, finished=finished)

    def _done(self, stop_when_full: bool) -> Tensor:
        """(B,) boolean by the rule of `beam_search`; an image with nothing open is done, too."""
        worst = self.finalists.worst(self.images)
        if stop_when_full:
            return (worst > -torch.inf) | (self.totals.amax(1) == -torch.inf)
        return self.totals.amax(1) / self.penalty(self.constraints.maximum_length) <= worst

    def _go_on(self, parents: Tensor, done: Tensor) -> None:
        """Let the state follow the choice; done images fall silent, and leave once they are enough."""
        self.state = self.step.reorder(self.state, parents)
        self.totals = self.totals.masked_fill(done.unsqueeze(1), -torch.inf)
        if done.sum() < LEAVING_SHARE * len(done):
            return
        stay = (~done).nonzero().squeeze(1)
        self.state = self.step.select(self.state, stay)
        self.words, self.totals, self.images = self.words[stay], self.totals[stay], self.images[stay]
        self.rows = torch.zeros_like(self.rows)
        self.rows[self.images] = torch.arange(len(stay), device=stay.device)
