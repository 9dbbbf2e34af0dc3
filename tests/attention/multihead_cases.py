"""Attentions and tensors that the tests of multi-head attention share."""

import pytest
import torch
from torch import nn

from captioning.attention import MultiHeadAttention, RelativePositions

B, K, HN, N, R, W, DQ, DK, DV, DO = 2, 3, 5, 7, 11, 3, 13, 17, 19, 23
PATHS = pytest.mark.parametrize("need_weights", [True, False], ids=["open", "fused"])
KINDS = pytest.mark.parametrize("reach", [None, 2], ids=["content", "relative"])


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def cross(**options):
    """Every width a prime of its own; biases that a mistake would show."""
    widths = {"query_width": DQ, "key_width": DK, "value_width": DV, "width": HN * W, "output_width": DO}
    return shaken(MultiHeadAttention(heads=HN, **widths, **options))


def causal_self(reach=None, **options):
    relative = None if reach is None else RelativePositions(W, reach=reach)
    return shaken(MultiHeadAttention(query_width=DQ, heads=HN, width=HN * W, relative=relative, **options))


def shaken(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.double()


def some_mask(*shape):
    mask = torch.rand(*shape) > 0.4
    mask[..., 0] = True
    return mask


def assert_same_gradients(ours, theirs, leaves, their_leaves=None):
    """Towards the leaves, or towards each one's twin."""
    for one, other in zip(
        torch.autograd.grad(ours.sin().sum(), leaves, retain_graph=True),
        torch.autograd.grad(theirs.sin().sum(), their_leaves or leaves, retain_graph=True),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
