"""The additive score vᵀ tanh(q + k): its function, and keys that many steps compare with queries fast.

**Exponentials instead of tanh.** With E_q = exp(2q) and E_k = exp(2k),

    tanh(q + k) = 1 − 2z,   z = 1 / (1 + E_q E_k),   1 − tanh² = 4 z (1 − z).

E_k is computed once an image and E_q once a query; each of the B·N·R·A combinations then costs a product and a
reciprocal, several times cheaper on a CPU than a tanh. Exact to rounding as long as neither factor leaves the range of
the number type; beyond `LARGEST` the tanh itself is taken.

**Backward.** With s = 1 − tanh² and dS the scores' gradient: dq = v ⊙ (dSᵀ s) is a batched product, and
dk = v ⊙ Σ_steps dS s is added up in place over all steps, the factor v applied once at the end.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import Function

from captioning.tensors.recurrence import RunningGradient, SharedTensor

LARGEST = 20.0  # exp(2 · 20)² = exp(80), within float32 and bfloat16 (and its inverse too).
CHUNK = 1 << 19  # Elements of a temporary: a part of the images at a time, so that it stays in the cache.


class Activation(NamedTuple):
    """A nonlinearity y = f(x) whose slope is known from y, so that only y is kept for the backward pass."""

    apply_: Callable[[Tensor], Tensor]
    """f, in place."""
    slope: Callable[[Tensor], Tensor]
    """f'(x) as a function of y, in new memory."""


def _tanh_slope(activated: Tensor) -> Tensor:
    return torch.addcmul(activated.new_ones(()), activated, activated, value=-1)


ACTIVATIONS = {
    "tanh": Activation(torch.tanh_, _tanh_slope),
    "relu": Activation(torch.relu_, lambda activated: (activated > 0).to(activated.dtype)),
}


def additive(queries: Tensor, keys: Tensor, vector: Tensor, *, activation: str = "tanh") -> Tensor:
    """s_ij = vᵀ tanh(q_i + k_j) for projected queries (..., N, A) and keys (..., R, A) -> (..., N, R).

    Bahdanau, Cho and Bengio (2015), with q_i = W_q query_i and k_j = W_k key_j + b. `activation` can be relu, as
    in a widely copied port; then it is another function, not a faster one.
    """
    return ACTIVATIONS[activation].apply_(queries.unsqueeze(-2) + keys.unsqueeze(-3)) @ vector


def concat(queries: Tensor, keys: Tensor, matrix: Tensor, vector: Tensor) -> Tensor:
    """s_ij = vᵀ tanh(W [q_i; k_j]) for (..., N, Dq), (..., R, Dk) and W (A, Dq + Dk) -> (..., N, R).

    Luong, Pham and Manning (2015), their third form. The product with the joined vector is that of each part with its
    columns of W, so it is `additive` without a bias, and nothing is joined.
    """
    for_queries, for_keys = matrix.split([queries.shape[-1], keys.shape[-1]], dim=1)
    return additive(queries @ for_queries.T, keys @ for_keys.T, vector)


class AdditiveKeys(SharedTensor):
    """Projected keys (B, R, A) of B images, to be compared with the queries of many steps."""

    def __init__(self, keys: Tensor, vector: Tensor, *, activation: str = "tanh") -> None:
        super().__init__(keys, gradient_scale=vector)
        self.vector, self.activation = vector, activation
        fast = activation == "tanh" and _exponentials_fit(self.running.tensor)
        self._exponentials = (2 * self.running.tensor).exp_() if fast else None

    def select(self, images: Tensor) -> "AdditiveKeys":
        """The keys of these images only; for decoding, where no gradient is asked for."""
        return AdditiveKeys(self.running.tensor[images], self.vector, activation=self.activation)

    def compare_additively(self, queries: Tensor) -> Tensor:
        """(B', N, A) projected queries with the first B' images' keys -> (B', N, R) scores."""
        if self._exponentials is not None and _exponentials_fit(queries):
            return self._by_exponentials(queries, self._exponentials)
        activation = ACTIVATIONS[self.activation]
        if self.anchor is None:
            return additive(queries, self.first(len(queries)), self.vector, activation=self.activation)
        return _Additive.apply(queries, self.vector, self.anchor, self.running, activation)

    def _by_exponentials(self, queries: Tensor, exponentials: Tensor) -> Tensor:
        if self.anchor is None and not torch.is_grad_enabled():
            return _scores_in_chunks((2 * queries).exp_(), exponentials, self.vector)
        anchor = queries.new_empty(0) if self.anchor is None else self.anchor
        return _Exponentials.apply(queries, self.vector, anchor, self.running, exponentials)


def _exponentials_fit(tensor: Tensor) -> bool:
    """Whether the exponential form is exact here, and the faster one; a graph that is exported can't ask for sizes."""
    if torch.compiler.is_compiling():
        return False
    wide_enough = tensor.dtype in (torch.bfloat16, torch.float32, torch.float64)
    on_cpu = tensor.device.type == "cpu"  # elsewhere tanh is cheap, and asking for the largest would wait for it
    return wide_enough and on_cpu and (tensor.numel() == 0 or bool(tensor.detach().abs().amax() <= LARGEST))


def _logistic(queries: Tensor, keys: Tensor) -> Tensor:
    """z = 1 / (1 + E_q E_k) for exponentials (B, N, A) and (B, R, A) -> (B, N, R, A)."""
    one = queries.new_ones(())
    return torch.addcmul(one, queries.unsqueeze(2), keys.unsqueeze(1)).reciprocal_()


def _scores(logistic: Tensor, vector: Tensor) -> Tensor:
    """Σ_a v_a (1 − 2 z_a)."""
    return torch.add(vector.sum(), logistic @ vector, alpha=-2)


def _scores_in_chunks(queries: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    parts = _chunks(len(queries), queries.shape[1] * keys.shape[1] * keys.shape[2])
    return torch.cat([_scores(_logistic(queries[part], keys[part]), vector) for part in parts])


def _chunks(images: int, size_of_one: int) -> Iterator[slice]:
    step = max(1, CHUNK // max(size_of_one, 1))
    return (slice(start, min(start + step, images)) for start in range(0, max(images, 1), step))


def _push(running: RunningGradient, toward_scores: Tensor, slope: Tensor, part: slice) -> Tensor:
    """Add Σ_n dS_n s_n to the keys' sum; return Σ_r dS_r s_r (images, N, A), both without the factor v."""
    kept = running.first(part.stop)[part]
    for query in range(slope.shape[1]):
        kept.addcmul_(toward_scores[:, query].unsqueeze(-1), slope[:, query])
    return (toward_scores.unsqueeze(2) @ slope).squeeze(2)


class _Exponentials(Function):
    """The scores by exponentials; keeps z of every combination for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        vector: Tensor,
        anchor: Tensor,
        running: RunningGradient,
        exponentials: Tensor,
    ) -> Tensor:
        logistic = _logistic((2 * queries).exp_(), exponentials[: len(queries)])
        ctx.save_for_backward(logistic, vector)
        ctx.running = running
        return _scores(logistic, vector)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        logistic, vector = ctx.saved_tensors
        (toward_scores,) = gradients
        toward_vector = toward_scores.sum() - 2 * (toward_scores.flatten() @ logistic.flatten(0, 2))
        toward_queries = []
        for part in _chunks(len(logistic), logistic[:1].numel()):
            kept = logistic[part]
            slope = torch.addcmul(kept, kept, kept, value=-1)  # a quarter of 1 − tanh²
            toward_queries.append(_push(ctx.running, 4 * toward_scores[part], slope, part))
        return torch.cat(toward_queries) * vector, toward_vector, vector.new_zeros(0), None, None


class _Additive(Function):
    """The scores by the nonlinearity itself; keeps its values for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        vector: Tensor,
        anchor: Tensor,
        running: RunningGradient,
        activation: Activation,
    ) -> Tensor:
        keys = running.tensor[: len(queries)]
        activated = activation.apply_(queries.unsqueeze(2) + keys.unsqueeze(1))
        ctx.save_for_backward(activated, vector)
        ctx.running, ctx.activation = running, activation
        return activated @ vector

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        activated, vector = ctx.saved_tensors
        (toward_scores,) = gradients
        toward_vector = toward_scores.flatten() @ activated.flatten(0, 2)
        toward_queries = [
            _push(ctx.running, toward_scores[part], ctx.activation.slope(activated[part]), part)
            for part in _chunks(len(activated), activated[:1].numel())
        ]
        return torch.cat(toward_queries) * vector, toward_vector, vector.new_zeros(0), None, None
