"""A selection that draws nothing: what an earlier reading chose is chosen again."""

import torch
from torch import Tensor

from captioning.attention.scored import Values
from captioning.attention.selection import Attended, Selection, attended_at
from captioning.errors import ShapeError


class Replay(Selection):
    """The cells of an earlier reading, step by step, with the log-probability that they have now.

    So rewards that came later can reach choices: `Hard` or `Mixed` made them, without gradient.
    """

    needs_log_weights = True

    def __init__(self, cells: Tensor, sampled: Tensor | None = None) -> None:
        """cells: (B, N, T) what call t chooses for the first images; sampled: (B, N, T) boolean, as `Mixed` reports."""
        super().__init__()
        self.cells, self.sampled = cells.unbind(-1), None if sampled is None else sampled.unbind(-1)
        self.step = 0

    def forward(
        self,
        weights: Tensor,
        values: Values,
        *,
        log_weights: Tensor | None = None,
        generator: torch.Generator | None = None,
        coins: Tensor | None = None,
    ) -> Attended:
        if self.step == len(self.cells):
            raise ShapeError(f"replay: expected at most {len(self.cells)} steps, got one more")
        index = self.cells[self.step][: len(weights)]
        sampled = None if self.sampled is None else self.sampled[self.step][: len(weights)]
        self.step += 1
        return attended_at(index, weights, values, log_weights, sampled)
