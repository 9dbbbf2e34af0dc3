"""Losses as sums: over a caption's words, over the captions of the batch. What they are divided by comes later.

The convention of the whole project: what is optimized is the sum over a caption's words, divided by the number of
captions in the whole optimizer step, all accumulated parts and all processes together. A loss therefore returns sums,
and the training module divides the gradients once, when the step's count is known.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from captioning.tensors.precision import at_least_float32


class WordLoss(NamedTuple):
    """Cross-entropy over real words; END is one."""

    smoothed: Tensor
    """() sum of the label-smoothed loss, what is optimized."""
    nats: Tensor
    """() sum of −log p(word), without smoothing and gradient: what is reported."""


def word_loss(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> WordLoss:
    """Σ_words (1 − ε) (−log p(y)) + ε mean_v(−log p(v)); logits (n, V), targets (n,), one row a real word.

    0 with zero gradient when there is no word.
    """
    logits = at_least_float32(logits)
    smoothed = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    if smoothing == 0.0:
        return WordLoss(smoothed, smoothed.detach())
    with torch.no_grad():
        nats = F.cross_entropy(logits, targets, reduction="sum")
    return WordLoss(smoothed, nats)


def doubly_stochastic_penalty(coverage: Tensor, exists: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Σ_captions Σ_i (1 − Σ_t α_ti)²: each region should be looked at about once over a caption (Xu et al., eq. 14).

    coverage: (B, M, R) the sum of each caption's weights over its real words.
    exists: (B, M) boolean, which captions there are.
    mask: (B, R) boolean, which regions there are; None: all.
    """
    squared = (1 - coverage).square()
    if mask is not None:
        squared = squared.masked_fill(~mask.unsqueeze(1), 0)
    return squared.masked_fill(~exists.unsqueeze(-1), 0).sum()
