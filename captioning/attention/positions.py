"""Positions: what tells attention where a row stands, since attention on content alone is blind to order.

Absolute ones are vectors added to the inputs: of words by their place in the caption, of grid cells by row and column.
Relative ones act inside self-attention: `MultiHeadAttention(relative=RelativePositions(...))`.
"""

import torch
from torch import Tensor, nn

from captioning.errors import ConfigError, ShapeError
from captioning.tensors.precision import at_least_float32
from captioning.tensors.shapes import check_shape

LONGEST_WAVE = 10000.0
"""Of the sinusoids, in units of 2π positions."""
LEARNED_SPREAD = 0.02
"""Standard deviation of fresh learned positions: small beside word vectors and features."""


def sinusoidal(places: Tensor, width: int) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i/width)), PE(p, 2i+1) = cos of the same; places (...) -> (..., width).

    Vaswani et al. (2017), section 3.5. The vector of p + k is a fixed rotation of that of p, pair by pair. Computed in
    the places' number type.
    """
    components = torch.arange(width, device=places.device)
    exponents = (components - components % 2).to(places.dtype) / width
    angles = places.unsqueeze(-1) / LONGEST_WAVE**exponents
    return torch.where(components % 2 == 0, angles.sin(), angles.cos())


def sinusoidal_grid(rows: Tensor, columns: Tensor, width: int) -> Tensor:
    """`sinusoidal` of the rows (H) beside that of the columns (W), half the components each -> (H, W, width)."""
    half = width // 2
    down = sinusoidal(rows, half).unsqueeze(1).expand(-1, len(columns), -1)
    across = sinusoidal(columns, width - half).unsqueeze(0).expand(len(rows), -1, -1)
    return torch.cat([down, across], -1)


class NoPositions(nn.Module):
    """Adds nothing: attention stays blind to order."""

    def __init__(self, width: int, *, longest: int = 0) -> None:
        super().__init__()

    def forward(self, inputs: Tensor, start: int = 0) -> Tensor:
        """(..., T, D), unchanged."""
        return inputs


class SinusoidalPositions(nn.Module):
    """Adds `sinusoidal` to words; nothing is learned, and every length has its vectors."""

    def __init__(self, width: int, *, longest: int = 0) -> None:
        super().__init__()
        self.width = width

    def forward(self, inputs: Tensor, start: int = 0) -> Tensor:
        """Inputs (..., T, D) of the places start, start + 1, ... -> the same with their positions added."""
        sizes = check_shape("inputs", inputs, "... T D", D=self.width)
        return inputs + sinusoidal(_places(inputs, start, sizes["T"]), self.width).to(inputs.dtype)


class LearnedPositions(nn.Module):
    """Adds a learned vector for each of the first `longest` places of words."""

    def __init__(self, width: int, *, longest: int) -> None:
        super().__init__()
        self.vectors = _learned(longest, width)

    def forward(self, inputs: Tensor, start: int = 0) -> Tensor:
        """Inputs (..., T, D) of the places start, start + 1, ... -> the same with their positions added.

        Raises ShapeError for places beyond `longest`, which no training has reached.
        """
        longest, width = self.vectors.shape
        end = start + check_shape("inputs", inputs, "... T D", D=width)["T"]
        _check_extent("words", end, longest)
        return inputs + self.vectors[start:end].to(inputs.dtype)


class NoGridPositions(nn.Module):
    """Adds nothing: attention does not know which cells are neighbours."""

    def __init__(self, width: int, *, longest: int = 0) -> None:
        super().__init__()

    def forward(self, cells: Tensor, rows: int, columns: int) -> Tensor:
        """(..., H W, D), unchanged."""
        return cells


class SinusoidalGridPositions(nn.Module):
    """Adds `sinusoidal_grid` to the cells of a grid, of any size."""

    def __init__(self, width: int, *, longest: int = 0) -> None:
        super().__init__()
        self.width = width

    def forward(self, cells: Tensor, rows: int, columns: int) -> Tensor:
        """Cells (..., rows columns, D), row after row -> the same with their positions added."""
        check_shape("cells", cells, "... R D", R=rows * columns, D=self.width)
        places = sinusoidal_grid(_places(cells, 0, rows), _places(cells, 0, columns), self.width)
        return cells + places.flatten(0, 1).to(cells.dtype)


class LearnedGridPositions(nn.Module):
    """Adds the learned vector of a cell's row plus that of its column, for grids of up to `longest` of each."""

    def __init__(self, width: int, *, longest: int) -> None:
        super().__init__()
        self.row_vectors = _learned(longest, width)
        self.column_vectors = _learned(longest, width)

    def forward(self, cells: Tensor, rows: int, columns: int) -> Tensor:
        """Cells (..., rows columns, D), row after row -> the same with their positions added.

        Raises ShapeError for a grid larger than `longest` either way.
        """
        longest, width = self.row_vectors.shape
        check_shape("cells", cells, "... R D", R=rows * columns, D=width)
        _check_extent("rows", rows, longest)
        _check_extent("columns", columns, longest)
        places = self.row_vectors[:rows].unsqueeze(1) + self.column_vectors[:columns]
        return cells + places.flatten(0, 1).to(cells.dtype)


class RelativePositions(nn.Module):
    """Learned vectors of the distance from query to key, added to keys and to values inside self-attention.

        s_ij = q_i · (k_j + a_ij) / √width,   o_i = Σ_j w_ij (v_j + b_ij),
        a_ij = A[clip(j - i, -reach, reach)],   b_ij = B[clip(j - i, -reach, reach)]

    Shaw, Uszkoreit and Vaswani (2018), equations 3 to 5; all heads share the vectors, so `width` is a head's. Distances
    beyond `reach` count as `reach`, so that sequences longer than those of training work. Neither a_ij nor b_ij is
    spread out over all pairs: there are only 2 reach + 1 of each.
    """

    def __init__(self, width: int, *, reach: int) -> None:
        super().__init__()
        if reach < 0:
            raise ConfigError(f"relative positions: expected a reach of at least 0, got {reach}")
        self.width, self.reach = width, reach
        self.key_vectors = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * reach + 1, width)))
        self.value_vectors = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * reach + 1, width)))

    def distances(self, queries: int, keys: int) -> Tensor:
        """(N, R) row of the vectors for each pair; the queries are the last N of the R places."""
        device = self.key_vectors.device
        seen_from = torch.arange(keys - queries, keys, device=device).unsqueeze(1)
        return (torch.arange(keys, device=device) - seen_from).clamp(-self.reach, self.reach) + self.reach

    def scores(self, query: Tensor, keys: int) -> Tensor:
        """q_i · a_ij / √width for queries (..., N, width) that are the last N of `keys` places -> (..., N, R)."""
        query = at_least_float32(query)
        by_distance = query @ (self.key_vectors.to(query.dtype) / self.width**0.5).T  # (..., N, 2 reach + 1)
        return by_distance.gather(-1, self.distances(query.shape[-2], keys).expand(*query.shape[:-1], -1))

    def context(self, weights: Tensor) -> Tensor:
        """Σ_j w_ij b_ij for weights (..., N, R) -> (..., N, width), by the total weight at each distance."""
        index = self.distances(*weights.shape[-2:]).expand(weights.shape)
        totals = weights.new_zeros(*weights.shape[:-1], 2 * self.reach + 1).scatter_add(-1, index, weights)
        return totals @ self.value_vectors.to(weights.dtype)


def _learned(longest: int, width: int) -> nn.Parameter:
    if longest < 1:
        raise ConfigError(f"learned positions: expected a longest of at least 1, got {longest}")
    return nn.Parameter(nn.init.normal_(torch.empty(longest, width), std=LEARNED_SPREAD))


def _places(like: Tensor, start: int, count: int) -> Tensor:
    """start, start + 1, ... in at least float32: half precision does not even hold the whole numbers."""
    dtype = at_least_float32(like.new_empty(0)).dtype
    return torch.arange(start, start + count, device=like.device).to(dtype)


def _check_extent(what: str, found: int, longest: int) -> None:
    if found > longest:
        raise ShapeError(
            f"learned positions: expected at most longest = {longest} {what}, got {found}; "
            "make them with a larger `longest`, or take sinusoidal or relative ones"
        )


POSITIONS: dict[str, type[nn.Module]] = {
    "none": NoPositions,
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
    "relative": RelativePositions,
}
"""Of words. All but `relative` are added to the inputs; that one is handed to the self-attention."""

GRID_POSITIONS: dict[str, type[nn.Module]] = {
    "none": NoGridPositions,
    "sinusoidal": SinusoidalGridPositions,
    "learned": LearnedGridPositions,
}
"""Of grid cells."""
