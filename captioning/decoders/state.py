"""The state that a decoder hands from word to word: tensors whose first two axes are images and hypotheses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class State:
    """What follows each of K hypotheses (or M captions) of B images; every field is a tensor (B, K, ...) or None."""

    def first(self, rows: int) -> Self:
        """The first `rows` images."""
        return self._map(lambda tensor: tensor[:rows])

    def select(self, images: Tensor) -> Self:
        """These images only."""
        return self._map(lambda tensor: tensor[images])

    def reorder(self, parents: Tensor) -> Self:
        """Row k of image b becomes the old row parents[b, k]."""
        images = torch.arange(len(parents), device=parents.device).unsqueeze(1)
        return self._map(lambda tensor: tensor[images, parents])

    def spread(self, captions: int) -> Self:
        """One row an image (B, 1, ...) as `captions` equal ones (B, captions, ...)."""
        return self._map(lambda tensor: tensor.expand(-1, captions, *tensor.shape[2:]))

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(*(None if tensor is None else change(tensor) for tensor in vars(self).values()))


@dataclass(frozen=True, eq=False)
class LSTMState(State):
    """Of one LSTM, and where it looked last."""

    hidden: Tensor
    """(B, K, H)."""
    cell: Tensor
    """(B, K, H), at least float32."""
    looked: Tensor | None = None
    """(B, K, R) the weights of the last word, where the attention's locality asks for them; None before the first."""


def lstm_cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Gates (..., 4H) in torch's order i, f, g, o before their nonlinearities, and the old cell -> hidden, cell.

    c = σ(f) c' + σ(i) tanh(g), h = σ(o) tanh(c); in the number type of the cell.
    """
    entered, kept, candidate, shown = gates.to(cell.dtype).chunk(4, -1)
    cell = kept.sigmoid() * cell + entered.sigmoid() * candidate.tanh()
    return shown.sigmoid() * cell.tanh(), cell
