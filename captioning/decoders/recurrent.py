"""What recurrent decoders share: the LSTM cell, its state, and the result of reading given captions."""

from typing import NamedTuple

import torch
from torch import Tensor

from captioning.tensors.packing import PackedWords


class State(NamedTuple):
    """Hidden state and cell of K hypotheses (or M captions) of B images."""

    hidden: Tensor
    """(B, K, H)."""
    cell: Tensor
    """(B, K, H), at least float32."""

    def first(self, rows: int) -> "State":
        """The first `rows` images."""
        return State(self.hidden[:rows], self.cell[:rows])

    def select(self, images: Tensor) -> "State":
        """These images only."""
        return State(self.hidden[images], self.cell[images])

    def reorder(self, parents: Tensor) -> "State":
        """Row k of image b becomes the old row parents[b, k]."""
        images = torch.arange(len(parents), device=parents.device).unsqueeze(1)
        return State(self.hidden[images, parents], self.cell[images, parents])


class Reading(NamedTuple):
    """What a decoder makes of given captions, one row for each real word (the end token is one)."""

    logits: Tensor
    """(n, V) for the word at each position, given the true words before it."""
    weights: Tensor
    """(n, R) where the model looked for it."""
    words: PackedWords
    """Which caption and position each row belongs to."""


def lstm_cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Gates (..., 4H) in torch's order i, f, g, o before their nonlinearities, and the old cell -> hidden, cell.

    c = σ(f) c' + σ(i) tanh(g), h = σ(o) tanh(c); in the number type of the cell.
    """
    entered, kept, candidate, shown = gates.to(cell.dtype).chunk(4, -1)
    cell = kept.sigmoid() * cell + entered.sigmoid() * candidate.tanh()
    return shown.sigmoid() * cell.tanh(), cell
