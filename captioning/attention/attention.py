"""One operation, four moves: score → mask → normalize → select."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from captioning.attention.attended import Attended
from captioning.attention.locality import LOCALITY, Cells, Locality, LocalM, LocalP
from captioning.attention.masks import as_boolean, check_available
from captioning.attention.normalizers import NORMALIZERS
from captioning.attention.scored import Scored, Values
from captioning.attention.scores import SCORES, AdditiveScore, Score, ScoreMemory
from captioning.attention.selection import SELECTIONS, Selection, Soft
from captioning.errors import ConfigError
from captioning.tensors.recurrence import SharedTensor
from captioning.tensors.shapes import check_shape

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Memory:
    """What is attended: projected keys, values and mask of B images, made once an image and handed back and forth."""

    score: ScoreMemory
    values: SharedTensor
    """(B, R, Dv)."""
    mask: Tensor | None
    """(B, 1, R), or (B, N, R) for each query, boolean, True = may attend; None: every region exists."""
    cells: Cells | None = None
    """Where the keys lie; None where no locality asks for it."""

    def first_mask(self, rows: int) -> Tensor | None:
        """The mask of the first `rows` images."""
        return None if self.mask is None else self.mask[:rows]

    def select(self, images: Tensor) -> "Memory":
        """The memory of these images only; for decoding, where no gradient is asked for."""
        mask = None if self.mask is None else self.mask[images]
        cells = None if self.cells is None else self.cells.select(images)
        return Memory(self.score.select(images), self.values.select(images), mask, cells)


class Attention(nn.Module):
    """Attention of queries (B, N, Dq) over keys (B, R, Dk), put together from four parts, each by its name.

    score: one of SCORES; locality: of LOCALITY; normalizer: of NORMALIZERS; selection: of SELECTIONS, or a finished one
    (`Gumbel(0.5)`). `width` is the attention space A; None compares raw vectors where the score allows it.
    `activation` is the additive score's, `window` the half-width r of a local window, `temperature` the normalizer's τ,
    `dropout` that of soft weights in training, `luong_unnormalized` keeps local_p as the paper has it.

    `frozen_scores` is a control for ablations: the score keeps the parameters it was drawn with and never learns, so
    the difference is what a learned score is worth. (Encoder and decoder still learn to live with it.)

    Raises ConfigError for unknown names, sizes out of range, and parts that contradict each other.
    """

    def __init__(
        self,
        *,
        query_width: int,
        key_width: int,
        width: int | None = None,
        score: str = "additive",
        locality: str = "global",
        normalizer: str = "softmax",
        selection: str | Selection = "soft",
        temperature: float = 1.0,
        activation: str = "tanh",
        window: int = 2,
        dropout: float = 0.0,
        luong_unnormalized: bool = False,
        frozen_scores: bool = False,
    ) -> None:
        super().__init__()
        self.score = _make_score(score, query_width, key_width, width, activation)
        self.score.requires_grad_(not frozen_scores)
        self.locality = named("locality", locality, LOCALITY)(query_width, width or query_width, window)
        self.normalizer = named("normalizer", normalizer, NORMALIZERS)(temperature=temperature)
        self.selection = _make_selection(selection, dropout)
        self.luong_unnormalized = luong_unnormalized
        if luong_unnormalized:
            _check_unnormalized(self.locality, self.selection)

    @property
    def needs_previous(self) -> bool:
        """Whether the locality follows the weights of the step before, so that `previous` is to be handed in."""
        return isinstance(self.locality, LocalM)

    def remember(
        self,
        keys: Tensor,
        values: Tensor | None = None,
        mask: Tensor | None = None,
        grid: tuple[int, int] | None = None,
        *,
        check: bool = True,
    ) -> Memory:
        """Project keys (B, R, Dk) once; values (B, R, Dv) default to the keys.

        mask: (B, R), or (B, N, R) for each query, boolean or additive. Keys that it leaves to no query are set to zero
        first, so that NaN or inf in them is inert forward and backward. grid: (rows, columns) of the keys, row by row;
        None: they lie on a line.

        Raises ShapeError for sizes that do not fit and for a mask that leaves a query without any key. `check=False`
        does not look (it would wait for the device): such a query then gets zero weights, context and gradients.
        """
        sizes = check_shape("keys", keys, "B R D")
        values = keys if values is None else values
        check_shape("values", values, "B R Dv", B=sizes["B"], R=sizes["R"])
        if mask is not None:
            letters = "B N R" if mask.dim() == 3 else "B R"
            mask = as_boolean(mask)
            check_shape("mask", mask, letters, B=sizes["B"], R=sizes["R"])
            if check:
                check_available(mask)
            mask = mask if mask.dim() == 3 else mask.unsqueeze(1)
            absent = ~mask.any(1).unsqueeze(-1)
            keys, values = (tensor.masked_fill(absent, 0) for tensor in (keys, values))
        cells = Cells.of(keys, mask, grid) if self.locality.needs_cells else None
        return Memory(self.score.remember(keys), SharedTensor(values), mask, cells)

    def forward(
        self,
        queries: Tensor,
        memory: Memory,
        previous: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        generator: torch.Generator | None = None,
        coins: Tensor | None = None,
    ) -> Attended:
        """Queries (B', N, Dq) over the first B' images of the memory -> context (B', N, Dv), weights (B', N, R).

        previous, positions: where local_m has its centres (see there). generator: where random choices come from.
        coins: (B', N) boolean, for `mixed` (see there).
        """
        scored = self.scores(queries, memory, previous, positions=positions)
        return self.select(scored, memory.values, generator=generator, coins=coins)

    def scores(
        self, queries: Tensor, memory: Memory, previous: Tensor | None = None, *, positions: Tensor | None = None
    ) -> Scored:
        """The first two moves: (scores, mask, log_factor), after locality; `with_own` adds a key of the query's own."""
        scored = Scored(self.score(queries, memory.score), memory.first_mask(len(queries)))
        return self.locality(scored, queries, memory.cells, previous, positions)

    def normalize(self, scored: Scored) -> Tensor:
        """The third move: weights (B', N, R) in at least float32."""
        if self.luong_unnormalized and scored.log_factor is not None:
            return self.normalizer(scored.scores, scored.mask) * scored.log_factor.exp()
        return self.normalizer(*scored)

    def select(
        self,
        scored: Scored,
        values: Values,
        *,
        generator: torch.Generator | None = None,
        coins: Tensor | None = None,
    ) -> Attended:
        """The last two moves: normalize, and select from the values (`memory.values`, or ValuesWithOwn)."""
        weights = self.normalize(scored)
        log_weights = self.normalizer.log_weights(*scored) if self.selection.needs_log_weights else None
        return self.selection(weights, values, log_weights=log_weights, generator=generator, coins=coins)


def _make_score(name: str, query_width: int, key_width: int, width: int | None, activation: str) -> Score:
    kind: Any = named("attention score", name, SCORES)
    if issubclass(kind, AdditiveScore):
        return kind(query_width, key_width, width, activation=activation)
    return kind(query_width, key_width, width)


def _make_selection(selection: str | Selection, dropout: float) -> Selection:
    made = selection if isinstance(selection, Selection) else named("selection", selection, SELECTIONS)()
    if not dropout:
        return made
    if not isinstance(made, Soft):
        raise ConfigError(
            f"attention dropout: expected 0 with selection {_name(made)}, got {dropout}: dropped weights do not sum to "
            "one, so nothing can be drawn from them; use soft selection"
        )
    return Soft(dropout)


def _check_unnormalized(locality: Locality, selection: Selection) -> None:
    if not isinstance(locality, LocalP):
        raise ConfigError("luong_unnormalized: expected locality local_p, whose Gaussian it leaves unnormalized")
    if not isinstance(selection, Soft):
        raise ConfigError(
            f"luong_unnormalized: expected soft selection, got {_name(selection)}: the weights do not sum to one, so "
            "nothing can be drawn from them; leave it out to renormalize"
        )


def _name(selection: Selection) -> str:
    return type(selection).__name__.lower()


def named(what: str, name: str, table: dict[str, Kind]) -> Kind:
    """The entry of a name table, or a ConfigError with the nearest name."""
    if name not in table:
        near = get_close_matches(name, table, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"{what}: expected one of {', '.join(sorted(table))}, got {name!r}{hint}")
    return table[name]
