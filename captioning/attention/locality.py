"""Locality: whether a query sees all keys or a window of them. Independent of soft and hard.

A line of keys is a grid of one row, so windows and centres are written once, as (row, column). The window holds the
available keys at most r rows and r columns away from its centre. It is never empty: where padding leaves none of
them, it grows up to the nearest available key (all of those at that distance).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from captioning.attention.masks import grid_cells, steps_between
from captioning.attention.scored import Scored
from captioning.errors import ConfigError, ShapeError
from captioning.tensors.precision import at_least_float32, linear
from captioning.tensors.shapes import check_shape


@dataclass(frozen=True)
class Cells:
    """Where the keys of B images lie."""

    coordinates: Tensor
    """(R, 2) row and column of each key; row 0 for all keys of a line."""
    last: Tensor
    """(B, 1, 2) or (B, N, 2) the last row and column that hold an available key: the row's valid length − 1."""
    on_grid: bool

    @classmethod
    def of(cls, keys: Tensor, mask: Tensor | None, grid: tuple[int, int] | None) -> "Cells":
        """For keys (B, R, Dk) under a mask (B, 1 or N, R), on a grid (rows, columns) or, without one, on a line."""
        images, count = keys.shape[:2]
        rows, columns = grid or (1, count)
        if rows * columns != count:
            raise ShapeError(f"grid: expected rows · columns = R = {count}, got {rows} · {columns}")
        coordinates = grid_cells(rows, columns, device=keys.device)
        if mask is None:
            return cls(coordinates, coordinates[-1].expand(images, 1, 2), grid is not None)
        return cls(coordinates, (coordinates * mask.unsqueeze(-1)).amax(-2), grid is not None)

    def select(self, images: Tensor) -> "Cells":
        """Of these images only."""
        return Cells(self.coordinates, self.last[images], self.on_grid)


class Locality(nn.Module):
    """What all localities have in common: the half-width r of their window, and the call."""

    needs_cells = True
    smallest_window = 0

    def __init__(self, query_width: int, width: int, window: int) -> None:
        super().__init__()
        if window < self.smallest_window:
            raise ConfigError(
                f"{type(self).__name__} window: expected a half-width of at least {self.smallest_window}, got {window}"
            )
        self.window = window

    def forward(
        self,
        scored: Scored,
        queries: Tensor,
        cells: Cells | None,
        previous: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Scored:
        """Scores (B', N, R) of queries (B', N, Dq) over keys at `cells` -> the same with a narrower mask, or a factor.

        previous: (B', N, R) weights of the step before; positions: (N, 2) or, on a line, (N,) places of the queries.
        Both are read by local_m only.
        """
        raise NotImplementedError


class Global(Locality):
    """Every available key."""

    needs_cells = False

    def forward(
        self,
        scored: Scored,
        queries: Tensor,
        cells: Cells | None,
        previous: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Scored:
        return scored


class LocalM(Locality):
    """A window around the query's own position (Luong, Pham and Manning, 2015: "monotonic").

    With `positions` (self-attention) that is the centre. A word has no place on a grid, so in a caption the centre is
    the expected cell under the weights of the step before, Σ_j w_j (row_j, column_j) rounded; weights that do not sum
    to one (dropout, a sentinel beside the keys) are taken relative to their sum. At the first step, and after one that
    looked at no key at all, every key is seen.
    """

    def forward(
        self,
        scored: Scored,
        queries: Tensor,
        cells: Cells | None,
        previous: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Scored:
        """As for all. Raises ShapeError where both `previous` and `positions` are given, or with wrong sizes."""
        assert cells is not None
        if previous is not None and positions is not None:
            raise ShapeError(
                "local_m: expected one of `previous` (captions) and `positions` (self-attention), got both"
            )
        if positions is not None:
            centres = _as_cells(positions, queries.shape[1], cells)
            return scored._replace(mask=_within(centres, self.window, cells, scored))
        if previous is None:
            return scored
        check_shape("previous", previous, "B N R", **dict(zip("BNR", scored.scores.shape, strict=True)))
        centres, unknown = _expected_cell(previous.detach(), cells)
        mask = _within(centres, self.window, cells, scored)
        return scored._replace(mask=mask | (unknown if scored.mask is None else unknown & scored.mask))


class LocalP(Locality):
    """A window around a predicted centre (Luong, Pham and Manning, 2015, section 3.2, "predictive").

        p = (R − 1) · sigmoid(v_pᵀ tanh(W_p q)),   w_j ∝ normalized(s)_j · exp(−|j − p|² / (2σ²)),   σ = r / 2

    with R the row's valid length (the paper writes S · sigmoid; zero-based cells end at R − 1). On a grid the centre is
    (row, column), with a vector v_p each, and |j − p| the distance in the plane. The centre gets its gradient through
    the Gaussian. (Attention's `luong_unnormalized` keeps the paper's form, with = in place of ∝.)
    """

    smallest_window = 1  # σ is half of it

    def __init__(self, query_width: int, width: int, window: int) -> None:
        super().__init__(query_width, width, window)
        self.to_hidden = nn.Linear(query_width, width, bias=False)
        self.to_centre = nn.Linear(width, 2, bias=False)

    def centres(self, queries: Tensor, cells: Cells) -> Tensor:
        """(B', N, Dq) -> (B', N, 2) row and column, in at least float32."""
        logits = linear(self.to_centre, linear(self.to_hidden, queries).tanh())
        return cells.last[: len(queries)] * at_least_float32(logits).sigmoid()

    def forward(
        self,
        scored: Scored,
        queries: Tensor,
        cells: Cells | None,
        previous: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Scored:
        assert cells is not None
        centres = self.centres(queries, cells)
        squared = (centres.unsqueeze(-2) - cells.coordinates).square().sum(-1)
        log_factor = -squared / (2 * (self.window / 2) ** 2)
        return Scored(scored.scores, _within(centres.detach(), self.window, cells, scored), log_factor)


def _within(centres: Tensor, window: int, cells: Cells, scored: Scored) -> Tensor:
    """(B', N, 2) or (N, 2) centres -> (B', N, R): the available keys of the window, or else the nearest ones."""
    steps = steps_between(centres, cells.coordinates)
    if scored.mask is None:
        return (steps <= steps.amin(-1, keepdim=True).clamp(min=window)).expand_as(scored.scores)
    available = steps.masked_fill(~scored.mask, torch.inf)
    return (available <= available.amin(-1, keepdim=True).clamp(min=window)) & scored.mask


def _expected_cell(weights: Tensor, cells: Cells) -> tuple[Tensor, Tensor]:
    """(B', N, R) -> the mean cell rounded (B', N, 2), and whether (B', N, 1) there was no weight to take it of."""
    weights = at_least_float32(weights)
    total = weights.sum(-1, keepdim=True)
    unknown = total <= 0
    return (weights @ cells.coordinates.to(weights.dtype) / total.masked_fill(unknown, 1)).round(), unknown


def _as_cells(positions: Tensor, count: int, cells: Cells) -> Tensor:
    """(N,) places on a line, or (N, 2) on a grid -> (N, 2) float."""
    if positions.dim() == 1 and not cells.on_grid:
        positions = torch.stack([torch.zeros_like(positions), positions], -1)
    check_shape("positions", positions, "N axes", N=count, axes=2)
    return positions.to(cells.coordinates.dtype)


LOCALITY: dict[str, type[Locality]] = {"global": Global, "local_m": LocalM, "local_p": LocalP}
