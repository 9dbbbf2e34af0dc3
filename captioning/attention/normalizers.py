"""Normalizers: scores over the available keys become weights, non-negative and summing to one."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from captioning.attention.sparse import entmax15, sparsemax
from captioning.errors import ConfigError
from captioning.tensors.precision import at_least_float32


def softmax(scores: Tensor, mask: Tensor | None = None, *, temperature: float = 1.0, dim: int = -1) -> Tensor:
    """w_j = exp(s_j / τ) / Σ_available exp(s / τ) along `dim`; computed in at least float32.

    Masked keys get exactly 0, whatever their scores hold (NaN and inf included), forward and backward. A row without
    any available key gets zero weights and zero gradients: the fast path behind `check_available`.
    """
    scores = _divided(scores, temperature)
    if mask is None:
        return scores.softmax(dim)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim).masked_fill(~mask, 0.0)


def log_softmax(scores: Tensor, mask: Tensor | None = None, *, temperature: float = 1.0, dim: int = -1) -> Tensor:
    """log w_j, finite where `softmax` underflows to 0 and −inf exactly at masked keys (with zero gradient there)."""
    scores = _divided(scores, temperature)
    if mask is None:
        return scores.log_softmax(dim)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).log_softmax(dim).masked_fill(~mask, -torch.inf)


def safe_log(weights: Tensor) -> Tensor:
    """log w, −inf at weights of 0, where the gradient is 0 instead of NaN."""
    nothing = weights <= 0
    return weights.masked_fill(nothing, 1).log().masked_fill(nothing, -torch.inf)


def reweighted(weights: Tensor, log_factor: Tensor) -> Tensor:
    """w_j f_j / Σ w f over the last axis, from log f; a row of zeros stays one."""
    nothing = weights <= 0
    largest = log_factor.detach().masked_fill(nothing, -torch.inf).amax(-1, keepdim=True)
    # Relative to the largest factor of a positive weight the sum is at least that weight, however small the factors.
    factors = (log_factor - largest).masked_fill(nothing, 0).exp()
    products = weights * factors
    total = products.sum(-1, keepdim=True)
    return products / total.masked_fill(total == 0, 1)


def _divided(scores: Tensor, temperature: float) -> Tensor:
    scores = at_least_float32(scores)
    return scores if temperature == 1.0 else scores / temperature


class Normalizer(nn.Module):
    """What all normalizers have in common: a function, a temperature τ > 0 (smaller is more peaked), a factor.

    `log_factor` is what a locality multiplies the weights by; they are renormalized after it.
    """

    function: Callable[..., Tensor]

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not temperature > 0:
            raise ConfigError(f"{type(self).__name__} temperature: expected a number > 0, got {temperature}")
        self.temperature = temperature

    def forward(self, scores: Tensor, mask: Tensor | None = None, log_factor: Tensor | None = None) -> Tensor:
        """(..., R) scores, boolean mask and log f, broadcast -> (..., R) weights in at least float32."""
        weights = type(self).function(scores, mask, temperature=self.temperature)
        return weights if log_factor is None else reweighted(weights, log_factor)

    def log_weights(
        self, scores: Tensor, mask: Tensor | None = None, log_factor: Tensor | None = None
    ) -> Tensor | None:
        """log of `forward`, −inf at weights of 0, if it is known better than by taking the logarithm; else None."""
        return None


class Softmax(Normalizer):
    """`softmax`: positive at every available key. A factor is the same as its logarithm added to s / τ."""

    function = staticmethod(softmax)

    def forward(self, scores: Tensor, mask: Tensor | None = None, log_factor: Tensor | None = None) -> Tensor:
        if log_factor is None:
            return softmax(scores, mask, temperature=self.temperature)
        return softmax(_divided(scores, self.temperature) + log_factor, mask)

    def log_weights(self, scores: Tensor, mask: Tensor | None = None, log_factor: Tensor | None = None) -> Tensor:
        scores = _divided(scores, self.temperature)
        return log_softmax(scores if log_factor is None else scores + log_factor, mask)


class Sparsemax(Normalizer):
    """`sparsemax`: exact zeros, and the fewest keys of all."""

    function = staticmethod(sparsemax)


class Entmax15(Normalizer):
    """`entmax15`: exact zeros, but smoother than sparsemax."""

    function = staticmethod(entmax15)


class Uniform(Softmax):
    """A control, no attention: 1 / (number of available keys) on each, whatever the scores."""

    def forward(self, scores: Tensor, mask: Tensor | None = None, log_factor: Tensor | None = None) -> Tensor:
        return super().forward(torch.zeros_like(scores), mask, log_factor)

    def log_weights(self, scores: Tensor, mask: Tensor | None = None, log_factor: Tensor | None = None) -> Tensor:
        return super().log_weights(torch.zeros_like(scores), mask, log_factor)


NORMALIZERS: dict[str, type[Normalizer]] = {
    "softmax": Softmax,
    "sparsemax": Sparsemax,
    "entmax15": Entmax15,
    "uniform": Uniform,
}
