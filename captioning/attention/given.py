"""A selection that draws nothing: choices are handed in, so that they can be listed."""

import torch
from torch import Tensor

from captioning.attention.normalizers import safe_log
from captioning.attention.scored import Values
from captioning.attention.selection import Attended, Selection
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
