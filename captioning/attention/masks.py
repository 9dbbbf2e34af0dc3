"""Masks: which keys a query may attend to. Boolean, True means "may attend"; `combine` or `&` joins them."""

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


def window_mask(T: int, radius: int, *, device: torch.device | None = None) -> Tensor:  # noqa: N803
    """(T, T): position i sees j with |i − j| <= radius; at the border, what exists of it."""
    return grid_window_mask(1, T, radius, device=device)


def grid_window_mask(rows: int, columns: int, radius: int, *, device: torch.device | None = None) -> Tensor:
    """(R, R) for R = rows · columns cells, row by row: a cell sees those at most `radius` rows and columns away."""
    if radius < 0:
        raise ShapeError(f"radius: expected the half-width of a window, at least 0, got {radius}")
    cells = grid_cells(rows, columns, device=device)
    return steps_between(cells, cells) <= radius


def grid_cells(rows: int, columns: int, *, device: torch.device | None = None) -> Tensor:
    """(R, 2) float: row and column of each of the rows · columns cells, row by row. A line is a grid of one row."""
    axes = (torch.arange(size, dtype=torch.float32, device=device) for size in (rows, columns))
    return torch.cartesian_prod(*axes)


def steps_between(centres: Tensor, cells: Tensor) -> Tensor:
    """Centres (..., N, 2) and cells (R, 2) -> (..., N, R): the larger of the distances in rows and in columns."""
    return (centres.unsqueeze(-2) - cells).abs().amax(-1)


def combine(*masks: Tensor | None) -> Tensor | None:
    """What all of them allow; None stands for "no restriction", and None comes back if there is nothing else.

    Masks are boolean or additive and broadcast from the right: beside a causal mask (T, T), a padding mask (B, R)
    goes in as (B, 1, R). Raises ShapeError for shapes that do not broadcast.
    """
    given = [as_boolean(mask) for mask in masks if mask is not None]
    if not given:
        return None
    joined = given[0]
    for mask in given[1:]:
        try:
            joined = joined & mask
        except RuntimeError as error:
            shapes = " and ".join(str(tuple(each.shape)) for each in (joined, mask))
            raise ShapeError(f"masks: expected shapes that broadcast, got {shapes}") from error
    return joined


def from_additive(mask: Tensor) -> Tensor:
    """An additive mask (0 allowed, -inf forbidden) as a boolean one; anything else in it is refused."""
    if not mask.is_floating_point():
        raise ShapeError(f"additive mask: expected floating point with 0 and -inf, got {mask.dtype}")
    allowed = mask == 0
    if not bool((allowed | mask.isneginf()).all()):
        raise ShapeError(
            "additive mask: expected only 0 (allowed) and -inf (forbidden), got other values; "
            "make a mask of 0 and 1 boolean with mask.bool()"
        )
    return allowed


def as_boolean(mask: Tensor) -> Tensor:
    """A boolean mask as it is, an additive one converted: what every public function does with a mask, once."""
    if mask.dtype == torch.bool:
        return mask
    if mask.is_floating_point():
        return from_additive(mask)
    raise ShapeError(
        f"mask: expected a boolean mask (True = may attend) or an additive one of 0 and -inf, got {mask.dtype}; "
        "make a mask of 0 and 1 boolean with mask.bool()"
    )


def check_available(mask: Tensor) -> None:
    """Every query needs at least one key: raise ShapeError that names the first row of (..., R) without any."""
    empty = (~mask.any(-1)).nonzero()
    if len(empty):
        row = tuple(empty[0].tolist())
        raise ShapeError(f"mask: row {row} allows no key at all; give every query at least one key it may attend to")
