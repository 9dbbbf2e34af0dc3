"""What all searches share: images × hypotheses step by step, until nothing can get better."""

from typing import Generic

import torch
from torch import Tensor

from captioning.decoding.choosing import Chooser, Open
from captioning.decoding.constraints import Constraints
from captioning.decoding.finalists import Finalists
from captioning.decoding.ranking import LengthPenalty, length_penalty
from captioning.decoding.step import Hypothesis, State, Step
from captioning.decoding.trace import WEIGHTS, Trace
from captioning.errors import CaptioningError
from captioning.tensors.shapes import check_shape

LEAVING_SHARE = 0.25  # Leaving copies the memory of all images that stay, so a few are let gather first.


@torch.no_grad()
def run_search(
    step: Step[State],
    *,
    start: Tensor,
    constraints: Constraints,
    chooser: Chooser,
    ranking: str | LengthPenalty = "average",
    stop_when_full: bool = False,
) -> list[list[Hypothesis]]:
    """The captions that the chooser's choices lead to; for each image, best first.

    A hypothesis that chooses END is set aside. What has not ended after `maximum_length` choices (END is one), or has
    no allowed continuation in its whole group, is cut off. Of each group those that ended come back, by score, then,
    while there is room, those cut off, by score (`finished` is False); always at least one.

    **An image is done** when in each of its groups the places are full and no open hypothesis can still take one: the
    best open sum, divided by the penalty of the longest length, does not exceed the worst kept score. This bound holds
    for every ranking (`ranking.py` says why), so the captions are those of a search that always ran to the longest
    length. With `stop_when_full` it is done as soon as the places are full.

    `start` (B,) int64 is the word that each image's caption is begun with (START). Sums are float32 whatever the
    model's type. The images of a batch do not influence one another.
    """
    check_shape("start", start, "B")
    return _Search(step, start, constraints, chooser, length_penalty(ranking)).run(stop_when_full)


class _Search(Generic[State]):
    """The open hypotheses: K places for each image that is not done; a total of −∞ is an empty place."""

    def __init__(
        self, step: Step[State], start: Tensor, constraints: Constraints, chooser: Chooser, penalty: LengthPenalty
    ) -> None:
        self.step, self.constraints, self.chooser, self.penalty = step, constraints, chooser, penalty
        self.trace, self.finalists = Trace(), Finalists(len(start), chooser.groups, chooser.width, start.device)
        self.totals = chooser.start(len(start)).to(start.device)
        self.state = step.start()
        if self.totals.shape[1] > 1:
            self.state = step.reorder(self.state, start.new_zeros(self.totals.shape))
        self.words = start.unsqueeze(1).expand(self.totals.shape)
        self.said = start.new_zeros(*self.totals.shape, 0)
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
        self._cut_off(self.totals, len(self.trace))
        return self.finalists.hypotheses(self.trace)

    def _choose(self, length: int) -> Tensor:
        """Read the latest words, choose the next ones and set aside what ended; returns the parents."""
        read = self.step.advance(self.state, self.words)
        self.state = read.state
        allowed = self.constraints.apply(read.log_probabilities, self.said)
        choice = self.chooser.choose(allowed, Open(self.images, self.totals, self.said))
        if choice.totals.isnan().any():
            raise CaptioningError(
                f"log_probabilities: expected numbers, got NaN for word {length + 1}; "
                "look for NaN in the features or in the model's weights"
            )
        stuck = self._best(choice.totals) == -torch.inf
        if stuck.any():  # No allowed continuation in a whole group: what was open there is cut off here.
            open_there = self._by_group(self.totals).masked_fill(~stuck.unsqueeze(-1), -torch.inf)
            self._cut_off(open_there.flatten(1), length)
        self.trace.append(self.rows, choice, {**read.details, WEIGHTS: read.weights})
        ended = choice.words == self.constraints.end
        if ended.any():
            self._set_aside(choice.totals.masked_fill(~ended, -torch.inf), length + 1, finished=True)
        self.words, self.totals = choice.words, choice.totals.masked_fill(ended, -torch.inf)
        followed = choice.parents.unsqueeze(-1).expand(-1, -1, length)
        self.said = torch.cat([self.said.gather(1, followed), choice.words.unsqueeze(-1)], -1)
        return choice.parents

    def _cut_off(self, totals: Tensor, length: int) -> None:
        self._set_aside(self.chooser.cut(totals), length, finished=False)

    def _set_aside(self, totals: Tensor, length: int, *, finished: bool) -> None:
        scores = totals / self.penalty(max(length, 1))
        self.finalists.add(self.images, scores, last=length - 1, finished=finished)

    def _done(self, stop_when_full: bool) -> Tensor:
        """(B,) boolean by the rule of `run_search`; a group with nothing open is done, too."""
        worst, best = self.finalists.worst(self.images), self._best(self.totals)
        if stop_when_full:
            return ((worst > -torch.inf) | (best == -torch.inf)).all(1)
        return (best / self.penalty(self.constraints.maximum_length) <= worst).all(1)

    def _go_on(self, parents: Tensor, done: Tensor) -> None:
        """Let the state follow the choice; done images fall silent, and leave once they are enough."""
        self.state = self.step.reorder(self.state, parents)
        self.totals = self.totals.masked_fill(done.unsqueeze(1), -torch.inf)
        if done.sum() < LEAVING_SHARE * len(done):
            return
        stay = (~done).nonzero().squeeze(1)
        self.state = self.step.select(self.state, stay)
        self.words, self.totals, self.said = self.words[stay], self.totals[stay], self.said[stay]
        self.images = self.images[stay]
        self.rows = torch.zeros_like(self.rows)
        self.rows[self.images] = torch.arange(len(stay), device=stay.device)

    def _by_group(self, totals: Tensor) -> Tensor:
        """(B, K) -> (B, groups, places)."""
        return totals.unflatten(1, (self.chooser.groups, -1))

    def _best(self, totals: Tensor) -> Tensor:
        """(B, K) -> (B, groups): the best of each."""
        return self._by_group(totals).amax(-1)
