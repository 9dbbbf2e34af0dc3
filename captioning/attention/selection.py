"""Selection: weights and values become a context."""

from dataclasses import dataclass

from torch import Tensor, nn

from captioning.tensors.recurrence import SharedTensor


@dataclass(frozen=True)
class Attended:
    """What attention returns. A weight is the size of a contribution, not an explanation of a word."""

    context: Tensor
    """(B, N, Dv) what was selected from the values."""
    weights: Tensor
    """(B, N, R) on the simplex: non-negative, summing to one over the available keys."""


class Soft(nn.Module):
    """The expected value Σ_j w_j v_j: it lies in the convex hull of the available values."""

    def forward(self, weights: Tensor, values: SharedTensor) -> Attended:
        """(B', N, R) weights over the first B' images of (B, R, Dv) values."""
        return Attended(values.mix(weights.to(values.running.tensor.dtype)), weights)


SELECTIONS: dict[str, type[nn.Module]] = {"soft": Soft}
