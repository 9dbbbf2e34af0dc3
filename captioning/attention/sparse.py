"""Normalizers with exact zeros: sparsemax and 1.5-entmax, by sorting, each with its own backward pass.

Sums run from the best score down, so that huge or infinite ones far below it can't spoil the threshold.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from captioning.tensors.precision import at_least_float32


def sparsemax(scores: Tensor, mask: Tensor | None = None, *, temperature: float = 1.0, dim: int = -1) -> Tensor:
    """argmin_p ‖p − s / τ‖² over the simplex: the nearest distribution, [s / τ − t]₊ with t such that it sums to one.

    Martins and Astudillo (2016). `scores` (any shape) are normalized along `dim`, in at least float32, over the keys
    that `mask` (boolean, True = may attend, broadcast) leaves; masked keys get exactly 0 forward and backward,
    whatever they hold. A row without any key gets zero weights and gradients.
    """
    return _masked(_Sparsemax, scores, mask, temperature, dim)


def entmax15(scores: Tensor, mask: Tensor | None = None, *, temperature: float = 1.0, dim: int = -1) -> Tensor:
    """argmax_p pᵀ s / τ + H_1.5(p) over the simplex = [s / (2 τ) − t]₊², with t such that it sums to one.

    Peters, Niculae and Martins (2019): between softmax and `sparsemax`, and as exact. Shapes, masks and number types as
    there.
    """
    return _masked(_Entmax15, scores, mask, temperature, dim)


def _masked(function: type[Function], scores: Tensor, mask: Tensor | None, temperature: float, dim: int) -> Tensor:
    scores = at_least_float32(scores)
    scores = scores if temperature == 1.0 else scores / temperature
    if mask is None:
        return function.apply(scores, dim)
    lowest = torch.finfo(scores.dtype).min
    return function.apply(scores.masked_fill(~mask, lowest), dim).masked_fill(~mask, 0.0)


def _below_best(scores: Tensor, dim: int) -> Tensor:
    """Scores with `dim` last, shifted so that the largest is 0."""
    scores = scores.movedim(dim, -1)
    return scores - scores.amax(-1, keepdim=True)


def _counts(like: Tensor) -> Tensor:
    return torch.arange(1, like.shape[-1] + 1, dtype=like.dtype, device=like.device)


def _support_size(belongs: Tensor) -> Tensor:
    # Never 0, so that NaN scores give NaN weights and not an index out of range.
    return belongs.sum(-1, keepdim=True).clamp(min=1)


class _Sparsemax(Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, dim: int) -> Tensor:
        shifted = _below_best(scores, dim)
        ordered = shifted.sort(-1, descending=True).values
        excess = ordered.cumsum(-1) - 1
        size = _support_size(_counts(ordered) * ordered > excess)
        threshold = excess.gather(-1, size - 1) / size
        weights = (shifted - threshold).clamp(min=0).movedim(-1, dim)
        ctx.save_for_backward(weights)
        ctx.dim = dim
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (weights,), (gradient,) = ctx.saved_tensors, gradients
        support = weights > 0
        kept = gradient * support
        mean = kept.sum(ctx.dim, keepdim=True) / support.sum(ctx.dim, keepdim=True)
        return kept - mean * support, None


class _Entmax15(Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, dim: int) -> Tensor:
        shifted = _below_best(scores / 2, dim)
        ordered = shifted.sort(-1, descending=True).values
        counts = _counts(ordered)
        mean = ordered.cumsum(-1) / counts
        spread = ordered.square().cumsum(-1) - counts * mean.square()
        # t solves Σ (z − t)² = 1 over the first keys: t = mean − √((1 − spread) / count).
        thresholds = mean - ((1 - spread) / counts).clamp(min=0).sqrt()
        size = _support_size(thresholds <= ordered)
        root = (shifted - thresholds.gather(-1, size - 1)).clamp(min=0).movedim(-1, dim)
        ctx.save_for_backward(root)
        ctx.dim = dim
        return root.square()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (root,), (gradient,) = ctx.saved_tensors, gradients
        weighted = gradient * root
        mean = weighted.sum(ctx.dim, keepdim=True) / root.sum(ctx.dim, keepdim=True)
        return weighted - mean * root, None
