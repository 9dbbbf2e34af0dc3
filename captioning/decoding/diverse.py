"""Diverse beam search: groups that avoid one another's words (Vijayakumar et al., 2018, arXiv 1610.02424).

At each step the groups choose one after the other, by

    Σ_t log p(y_t | y_<t, image) − λ · (how often the groups before chose this word at this step)

which is the paper's Hamming diversity. The penalty is compared with and then forgotten: sums, scores and the
log-probabilities of words stay the model's own. (Some implementations carry it on in the sums.)
"""

import torch
from torch import Tensor

from captioning.decoding.beam import beam_chooser
from captioning.decoding.choosing import Chooser, Open
from captioning.decoding.constraints import Constraints
from captioning.decoding.loop import run_search
from captioning.decoding.ranking import LengthPenalty
from captioning.decoding.step import Hypothesis, State, Step
from captioning.decoding.trace import Choice
from captioning.errors import ConfigError


def diverse_beam_search(
    step: Step[State],
    *,
    start: Tensor,
    constraints: Constraints,
    groups: int,
    group_size: int = 1,
    diversity: float = 0.5,
    ranking: str | LengthPenalty = "average",
) -> list[list[Hypothesis]]:
    """`groups` beams of `group_size` hypotheses an image, together best first; the first is a plain beam.

    diversity: λ, in nats. 0: all groups are the same beam. Two groups may still end at the same caption, which then
    comes back twice. Raises ConfigError for sizes that make no search.
    """
    if groups < 1:
        raise ConfigError(f"groups: expected at least 1, got {groups}")
    if not diversity >= 0:
        raise ConfigError(f"diversity: expected a number >= 0, got {diversity}")
    chooser = Groups(beam_chooser(group_size, constraints), groups, diversity)
    return run_search(step, start=start, constraints=constraints, chooser=chooser, ranking=ranking)


class Groups(Chooser):
    """The same chooser for each group, with what the groups before said made less attractive."""

    def __init__(self, chooser: Chooser, groups: int, diversity: float) -> None:
        self.chooser, self.groups, self.diversity = chooser, groups, diversity
        self.width = chooser.width

    def start(self, images: int) -> Tensor:
        """As each group's chooser starts."""
        return self.chooser.start(images).repeat(1, self.groups)

    def choose(self, allowed: Tensor, opened: Open) -> Choice:
        """As for all."""
        size = allowed.shape[1] // self.groups
        said_now = torch.zeros_like(allowed[:, 0], dtype=torch.float32)  # (B, V) times that a word was chosen
        chosen = []
        for first in range(0, allowed.shape[1], size):
            group = slice(first, first + size)
            own = Open(opened.images, opened.totals[:, group], opened.said[:, group])
            less = allowed[:, group] - self.diversity * said_now.unsqueeze(1)
            choice = _without_penalty(self.chooser.choose(less, own), allowed[:, group], own.totals)
            said_now.scatter_add_(1, choice.words, (choice.totals > -torch.inf).float())
            chosen.append(choice._replace(parents=choice.parents + first))
        return Choice(*(torch.cat(parts, 1) for parts in zip(*chosen, strict=True)))

    def cut(self, totals: Tensor) -> Tensor:
        """As each group's chooser cuts."""
        return torch.cat([self.chooser.cut(group) for group in totals.chunk(self.groups, 1)], 1)


def _without_penalty(choice: Choice, allowed: Tensor, totals: Tensor) -> Choice:
    """The choice with the model's own numbers."""
    images = torch.arange(len(totals), device=totals.device).unsqueeze(1)
    log_probabilities = allowed[images, choice.parents, choice.words].float()
    return choice._replace(
        totals=totals.gather(1, choice.parents) + log_probabilities, log_probabilities=log_probabilities
    )
