"""Selections that draw nothing: choices are handed in, to list them, or to repeat those of an earlier reading."""

import torch
from torch import Tensor

from captioning.attention.attended import Attended
from captioning.attention.drawing import attended_at
from captioning.attention.normalizers import safe_log
from captioning.attention.scored import Values
from captioning.attention.selection import Selection
from captioning.errors import ShapeError


class Given(Selection):
    """The value at an `index` that is set before each call.

    A choice of weight 0 has the log-probability −inf, so that its path counts nothing among all paths.
    """

    needs_log_weights = True

    def __init__(self) -> None:
        super().__init__()
        self.index: Tensor | None = None

    def forward(
        self,
        weights: Tensor,
        values: Values,
        *,
        log_weights: Tensor | None = None,
        generator: torch.Generator | None = None,
        coins: Tensor | None = None,
    ) -> Attended:
        """As for all. Raises ShapeError where `index` is not (B', N)."""
        index = self.index
        if index is None or index.shape != weights.shape[:2]:
            found = None if index is None else tuple(index.shape)
            raise ShapeError(f"given selection: expected an index {tuple(weights.shape[:2])}, got {found}")
        known = safe_log(weights) if log_weights is None else log_weights
        return Attended(values.pick(index), weights, index, known.gather(-1, index.unsqueeze(-1)).squeeze(-1))


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


class Shares:
    """Values that are the choices themselves: what is selected from them is the weight that each choice gets.

    So every selection, soft or hard, can say how it would mix R things that are no vectors.
    """

    def __init__(self, count: int, dtype: torch.dtype) -> None:
        self.count, self.dtype = count, dtype

    def mix(self, weights: Tensor) -> Tensor:
        """(B', N, R) -> the same."""
        return weights

    def pick(self, index: Tensor) -> Tensor:
        """(B', N) -> (B', N, R), 1 at the index."""
        return torch.nn.functional.one_hot(index, self.count).to(self.dtype)
