"""Operands that every step of a recurrence shares, with their gradient computed once instead of once a step.

Autograd, left alone, forms the gradient of a shared weight at every step as a thin matrix product and adds it to a
running sum: T times the memory traffic, and in half precision T roundings. Here every step only notes its operands,
and the gradient is one wide product after the last of them.

The trick is an *anchor*: an empty tensor that depends on the shared operand and that every step takes as an input.
Autograd runs the anchor's backward only after that of all steps, which is the moment to hand over the gradient. What
the steps write to (the tape, the sum) knows nothing of the anchor, so that no cycle keeps memory alive.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function
from torch.nn import functional as F


def _needs_gradient(tensor: Tensor) -> bool:
    return tensor.requires_grad and torch.is_grad_enabled()


class _Tape:
    """The inputs of every step and the gradients of its outputs, both as (rows, width)."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.steps: list[tuple[Tensor, Tensor]] = []


class SharedWeight:
    """y = x Wᵀ for the x of many steps; dW = Σ_steps dyᵀ x as one product. Exact; first derivatives only.

    `weight` is (out, in); it may be the result of a cast or a concatenation of parameters.
    """

    def __init__(self, weight: Tensor) -> None:
        self._tape = _Tape(weight.detach())
        self._anchor = _WeightGradient.apply(weight, self._tape) if _needs_gradient(weight) else None

    def __call__(self, inputs: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        if self._anchor is None:
            return F.linear(inputs, self._tape.weight)
        # One plain product of matrices: of a tensor with more axes or expanded ones torch makes a batched product.
        flat = inputs.reshape(-1, inputs.shape[-1])
        return _Linear.apply(flat, self._anchor, self._tape).unflatten(0, inputs.shape[:-1])


class _WeightGradient(Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, tape: _Tape) -> Tensor:
        ctx.tape = tape
        return weight.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor, None]:
        inputs, gradients = zip(*ctx.tape.steps, strict=True)
        ctx.tape.steps.clear()
        return torch.cat(gradients).T @ torch.cat(inputs), None


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, anchor: Tensor, tape: _Tape) -> Tensor:
        ctx.save_for_backward(inputs)
        ctx.tape = tape
        return F.linear(inputs, tape.weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, None]:
        (inputs,), (gradient,) = ctx.saved_tensors, gradients
        ctx.tape.steps.append((inputs, gradient))
        toward_inputs = gradient @ ctx.tape.weight if ctx.needs_input_grad[0] else None
        return toward_inputs, gradient.new_zeros(0), None


class RunningGradient:
    """A tensor (B, ...) and the sum of the gradients that the steps have found for it so far.

    A factor that the gradients of all steps share may be left out by them and given as `scale`, broadcast.
    """

    def __init__(self, tensor: Tensor, scale: Tensor | None = None) -> None:
        self.tensor = tensor
        self._scale = scale
        self._sum: Tensor | None = None

    def first(self, rows: int) -> Tensor:
        """The sum for the first `rows` rows, to be added to in place."""
        if self._sum is None:
            self._sum = torch.zeros_like(self.tensor)
        return self._sum[:rows]

    def take(self) -> Tensor:
        """The whole sum, scaled; the next backward pass starts from zero."""
        taken, self._sum = self.first(len(self.tensor)), None
        return taken if self._scale is None else taken.mul_(self._scale)


class SharedTensor:
    """A tensor (B, ...) of which many steps read the first rows, as many as they need.

    A custom function that takes `anchor` as an input adds its part to `running.first(rows)` in its backward.
    """

    def __init__(self, tensor: Tensor, *, gradient_scale: Tensor | None = None) -> None:
        scale = None if gradient_scale is None else gradient_scale.detach()
        self.running = RunningGradient(tensor.detach(), scale)
        self.anchor = _TensorGradient.apply(tensor, self.running) if _needs_gradient(tensor) else None

    def first(self, rows: int) -> Tensor:
        """The first `rows` rows, without gradient."""
        return self.running.tensor[:rows]

    def select(self, images: Tensor) -> "SharedTensor":
        """Of these images only; for decoding, where no gradient is asked for."""
        return SharedTensor(self.running.tensor[images])

    @property
    def dtype(self) -> torch.dtype:
        """The tensor's number type."""
        return self.running.tensor.dtype

    def mix(self, weights: Tensor) -> Tensor:
        """(B', N, R) weights over the first B' rows of (B, R, D) -> (B', N, D): Σ_r weights_r tensor_r."""
        if self.anchor is None:
            return weights @ self.first(len(weights))
        return _Mix.apply(weights, self.anchor, self.running)

    def pick(self, index: Tensor) -> Tensor:
        """(B', N) integers into the first B' rows of (B, R, D) -> (B', N, D): tensor_index, read and not multiplied."""
        if self.anchor is None:
            return _gather(self.first(len(index)), index)
        return _Pick.apply(index, self.anchor, self.running)

    def compare(self, queries: Tensor) -> Tensor:
        """(B', N, A) queries with the first B' rows of (B, R, A) -> (B', N, R): inner products."""
        if self.anchor is None:
            return queries @ self.first(len(queries)).transpose(1, 2)
        return _Compare.apply(queries, self.anchor, self.running)


class _TensorGradient(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, running: RunningGradient) -> Tensor:
        ctx.running = running
        return tensor.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor, None]:
        return ctx.running.take(), None


class _Mix(Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, anchor: Tensor, running: RunningGradient) -> Tensor:
        ctx.save_for_backward(weights)
        ctx.running = running
        return weights @ running.tensor[: len(weights)]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (weights,), (gradient,) = ctx.saved_tensors, gradients
        ctx.running.first(len(weights)).baddbmm_(weights.transpose(1, 2), gradient)
        toward_weights = gradient @ ctx.running.tensor[: len(weights)].transpose(1, 2)
        return toward_weights, gradient.new_zeros(0), None


def _gather(tensor: Tensor, index: Tensor) -> Tensor:
    return tensor.gather(1, index.unsqueeze(-1).expand(-1, -1, tensor.shape[-1]))


class _Pick(Function):
    @staticmethod
    def forward(ctx: Any, index: Tensor, anchor: Tensor, running: RunningGradient) -> Tensor:
        ctx.save_for_backward(index)
        ctx.running = running
        return _gather(running.tensor[: len(index)], index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None]:
        (index,), (gradient,) = ctx.saved_tensors, gradients
        ctx.running.first(len(index)).scatter_add_(1, index.unsqueeze(-1).expand_as(gradient), gradient)
        return None, gradient.new_zeros(0), None


class _Compare(Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, anchor: Tensor, running: RunningGradient) -> Tensor:
        ctx.save_for_backward(queries)
        ctx.running = running
        return queries @ running.tensor[: len(queries)].transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (queries,), (gradient,) = ctx.saved_tensors, gradients
        ctx.running.first(len(queries)).baddbmm_(gradient.transpose(1, 2), queries)
        toward_queries = gradient @ ctx.running.tensor[: len(queries)]
        return toward_queries, gradient.new_zeros(0), None
