"""Masks: which keys a query may attend to. Boolean, True means "may attend"; combine them with `&`."""

import torch
from torch import Tensor

from captioning.errors import ShapeError
from captioning.tensors.masking import length_mask


def padding_mask(lengths: Tensor, R: int) -> Tensor:  # noqa: N803 (the shape letter is the contract's name)
    """(...,) lengths -> (..., R): keys before the row's length exist."""
    if lengths.numel() and int(lengths.max()) > R:
        raise ShapeError(f"lengths: expected at most R = {R}, got {int(lengths.max())}")
    return length_mask(lengths, R)


def causal_mask(T: int, *, device: torch.device | None = None) -> Tensor:  # noqa: N803
    """(T, T): position i sees j <= i. The diagonal is the word already read, since targets are shifted by one."""
    return torch.ones(T, T, dtype=torch.bool, device=device).tril()


def from_additive(mask: Tensor) -> Tensor:
    """An additive mask (0 allowed, -inf forbidden) as a boolean one; anything else in it is refused."""
    if not mask.is_floating_point():
        raise ShapeError(f"additive mask: expected floating point with 0 and -inf, got {mask.dtype}")
    allowed = mask == 0
    if not bool((allowed | mask.isneginf()).all()):
        raise ShapeError("additive mask: expected only 0 (allowed) and -inf (forbidden), got other values")
    return allowed


def check_available(mask: Tensor) -> None:
    """Every query needs at least one key: raise ShapeError that names the first row of (..., R) without any."""
    empty = (~mask.any(-1)).nonzero()
    if len(empty):
        row = tuple(empty[0].tolist())
        raise ShapeError(f"mask: row {row} allows no key at all; give every query at least one key it may attend to")
