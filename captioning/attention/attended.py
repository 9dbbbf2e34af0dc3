"""What attention returns."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Attended:
    """What attention returns. A weight is the size of a contribution, not an explanation of a word.

    A query without any available key (only possible where checks are switched off) has zero weights, zero context,
    index 0 and log-probability 0.
    """

    context: Tensor
    """(B, N, Dv) what was selected from the values."""
    weights: Tensor
    """(B, N, R) on the simplex: non-negative, summing to one over the available keys. (Not after dropout, nor in
    Luong's unnormalized form.)"""
    index: Tensor | None = None
    """(B, N) the one key that was chosen, of several draws the one that came most often; None where all were mixed."""
    log_probability: Tensor | None = None
    """(B, N) log w_index of a random choice, summed over several draws, with its gradient: 0 where `sampled` is False.
    None: no random choice, or one whose gradient does not need it."""
    sampled: Tensor | None = None
    """(B, N) boolean, of `mixed` only: whether the context is the chosen key's value, else the mean of all."""

    @property
    def entropy(self) -> Tensor:
        """(B, N) −Σ w log w, computed when asked for."""
        logarithms = self.weights.masked_fill(self.weights <= 0, 1).log()
        return -(self.weights * logarithms).sum(-1)
