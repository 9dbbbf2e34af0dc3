"""One operation, four moves: score → mask → normalize → select."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from torch import Tensor, nn

from captioning.attention.locality import LOCALITY
from captioning.attention.masks import check_available
from captioning.attention.normalizers import NORMALIZERS
from captioning.attention.scores import SCORES, AdditiveScore, Score, ScoreMemory
from captioning.attention.selection import SELECTIONS, Attended
from captioning.errors import ConfigError
from captioning.tensors.recurrence import SharedTensor
from captioning.tensors.shapes import check_mask, check_shape

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Memory:
    """What is attended: projected keys, values and mask of B images, made once an image and handed back and forth."""

    score: ScoreMemory
    values: SharedTensor
    """(B, R, Dv)."""
    mask: Tensor | None
    """(B, 1, R) boolean, True = may attend; None: every region exists."""

    def first_mask(self, rows: int) -> Tensor | None:
        """The mask of the first `rows` images."""
        return None if self.mask is None else self.mask[:rows]

    def select(self, images: Tensor) -> "Memory":
        """The memory of these images only; for decoding, where no gradient is asked for."""
        mask = None if self.mask is None else self.mask[images]
        return Memory(self.score.select(images), self.values.select(images), mask)


class Attention(nn.Module):
    """Attention of queries (B, N, Dq) over keys (B, R, Dk), put together from four named parts.

    score: one of SCORES; locality: of LOCALITY; normalizer: of NORMALIZERS; selection: of SELECTIONS. `width` is the
    attention space A; None compares raw vectors where the score allows it. `activation` is the additive score's.
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
        selection: str = "soft",
        temperature: float = 1.0,
        activation: str = "tanh",
    ) -> None:
        super().__init__()
        self.score = _make_score(score, query_width, key_width, width, activation)
        self.locality = named("locality", locality, LOCALITY)()
        self.normalizer = named("normalizer", normalizer, NORMALIZERS)(temperature=temperature)
        self.selection = named("selection", selection, SELECTIONS)()

    def remember(self, keys: Tensor, values: Tensor | None = None, mask: Tensor | None = None) -> Memory:
        """Project keys (B, R, Dk) once; values (B, R, Dv) default to the keys; mask (B, R) is boolean.

        Rows that the mask leaves out are set to zero first, so that NaN or inf in them is inert forward and backward.
        Raises ShapeError for a mask that is not boolean or leaves an image without any region.
        """
        sizes = check_shape("keys", keys, "B R D")
        values = keys if values is None else values
        if mask is not None:
            check_mask("mask", mask)
            check_shape("mask", mask, "B R", B=sizes["B"], R=sizes["R"])
            check_available(mask)
            keys, values = (tensor.masked_fill(~mask.unsqueeze(-1), 0) for tensor in (keys, values))
            mask = mask.unsqueeze(1)
        return Memory(self.score.remember(keys), SharedTensor(values), mask)

    def forward(self, queries: Tensor, memory: Memory) -> Attended:
        """Queries (B', N, Dq) over the first B' images of the memory -> context, weights."""
        scores = self.score(queries, memory.score)
        scores, mask = self.locality(scores, memory.first_mask(len(queries)))
        weights = self.normalizer(scores, mask)
        return self.selection(weights, memory.values)


def _make_score(name: str, query_width: int, key_width: int, width: int | None, activation: str) -> Score:
    kind: Any = named("attention score", name, SCORES)
    if kind is AdditiveScore:
        return AdditiveScore(query_width, key_width, width or query_width, activation=activation)
    return kind(query_width, key_width, width)


def named(what: str, name: str, table: dict[str, Kind]) -> Kind:
    """The entry of a name table, or a ConfigError with the nearest name."""
    if name not in table:
        near = get_close_matches(name, table, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"{what}: expected one of {', '.join(sorted(table))}, got {name!r}{hint}")
    return table[name]
