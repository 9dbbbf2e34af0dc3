"""Scores: how well a key answers a query, s_ij = f(q_i, k_j). Real numbers, not normalized.

Each score is a function on projected tensors and a module that holds the projections. A module projects the keys once
an image (`remember`) and the queries at every step (`forward`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from captioning.attention.additive import ACTIVATIONS, AdditiveKeys
from captioning.errors import ConfigError
from captioning.tensors.precision import linear
from captioning.tensors.recurrence import SharedTensor, SharedWeight


def dot(queries: Tensor, keys: Tensor) -> Tensor:
    """s_ij = q_i · k_j for (..., N, A) and (..., R, A) -> (..., N, R). Luong, Pham and Manning (2015)."""
    return queries @ keys.transpose(-2, -1)


def scaled_dot(queries: Tensor, keys: Tensor) -> Tensor:
    """s_ij = q_i · k_j / √A, so that scores of independent unit-variance components keep unit variance."""
    return dot(queries / keys.shape[-1] ** 0.5, keys)


def general(queries: Tensor, keys: Tensor, matrix: Tensor) -> Tensor:
    """s_ij = q_iᵀ W k_j for (..., N, Dq), (..., R, Dk) and W (Dq, Dk) -> (..., N, R). Luong et al. (2015)."""
    return dot(queries, keys @ matrix.T)


@dataclass(frozen=True)
class ScoreMemory:
    """What a score keeps of the keys of B images, so that no step projects them again."""

    keys: SharedTensor
    """(B, R, A) projected keys."""
    project_query: Callable[[Tensor], Tensor]
    """(B, N, Dq) -> (B, N, A)."""

    def select(self, images: Tensor) -> "ScoreMemory":
        """Of these images only; for decoding, where no gradient is asked for."""
        return ScoreMemory(self.keys.select(images), self.project_query)


class Score(nn.Module):
    """What all scores have in common: a linear map for queries, one for keys, and a comparison of the two.

    Without a map (None) the raw vectors are compared. `width` is A, that of the space they are compared in; the
    comparison is the inner product, where a subclass says nothing else.
    """

    def __init__(self, query_map: nn.Linear | None, key_map: nn.Linear | None, width: int) -> None:
        super().__init__()
        self.query_map = query_map
        self.key_map = key_map
        self.width = width

    def remember(self, keys: Tensor) -> ScoreMemory:
        """(B, R, Dk) keys -> their projection and the query's map, in the keys' number type."""
        project = _identity if self.query_map is None else SharedWeight(self.query_map.weight.to(keys.dtype))
        return ScoreMemory(self._share(self.project_keys(keys)), project)

    def project_keys(self, keys: Tensor) -> Tensor:
        """(..., Dk) -> (..., A)."""
        return keys if self.key_map is None else linear(self.key_map, keys)

    def forward(self, queries: Tensor, memory: ScoreMemory) -> Tensor:
        """(B', N, Dq) queries over the first B' images of the memory -> (B', N, R) scores."""
        return self.compare(memory.project_query(queries), memory.keys)

    def _share(self, keys: Tensor) -> SharedTensor:
        return SharedTensor(keys)

    def compare(self, queries: Tensor, keys: SharedTensor) -> Tensor:
        """(B', N, A) projected queries, (B, R, A) projected keys -> (B', N, R)."""
        return keys.compare(queries)

    def compare_own(self, queries: Tensor, own: Tensor) -> Tensor:
        """(B, N, A) projected queries, each with a key of its own (B, N, A) in the same space -> (B, N).

        For keys that no other query may see, such as a sentinel made from the decoder's state.
        """
        return (queries * own).sum(-1)


def _identity(tensor: Tensor) -> Tensor:
    return tensor


class AdditiveScore(Score):
    """vᵀ tanh(W_q q + W_k k + b): queries and keys may differ in width; A is the attention space (default: Dq)."""

    biased = True

    def __init__(self, query_width: int, key_width: int, width: int | None = None, *, activation: str = "tanh") -> None:
        width = width or query_width
        query_map, key_map = nn.Linear(query_width, width, bias=False), nn.Linear(key_width, width, bias=self.biased)
        super().__init__(query_map, key_map, width)
        if activation not in ACTIVATIONS:
            raise ConfigError(f"additive activation: expected one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        self.activation = activation
        self.vector = nn.Parameter(torch.empty(width).uniform_(-(width**-0.5), width**-0.5))

    def _share(self, keys: Tensor) -> SharedTensor:
        return AdditiveKeys(keys, self.vector.to(keys.dtype), activation=self.activation)

    def compare(self, queries: Tensor, keys: SharedTensor) -> Tensor:
        assert isinstance(keys, AdditiveKeys)
        return keys.compare_additively(queries)

    def compare_own(self, queries: Tensor, own: Tensor) -> Tensor:
        return ACTIVATIONS[self.activation].apply_(queries + own) @ self.vector.to(queries.dtype)


class ConcatScore(AdditiveScore):
    """vᵀ tanh(W [q; k]), Luong's third form: additive with b = 0 and W = [W_q W_k], drawn as one matrix."""

    biased = False

    def __init__(self, query_width: int, key_width: int, width: int | None = None, *, activation: str = "tanh") -> None:
        super().__init__(query_width, key_width, width, activation=activation)
        bound = (query_width + key_width) ** -0.5
        for part in (self.query_map, self.key_map):
            assert part is not None
            nn.init.uniform_(part.weight, -bound, bound)


class DotScore(Score):
    """q · k. With a `width`, after one linear map of each to that attention space; without, Dq must equal Dk."""

    def __init__(self, query_width: int, key_width: int, width: int | None = None) -> None:
        if width is None and query_width != key_width:
            raise ConfigError(
                f"dot score: expected queries and keys of one width, got {query_width} and {key_width}; "
                "give a width of the attention space to map both to"
            )
        query_map = None if width is None else nn.Linear(query_width, width, bias=False)
        key_map = None if width is None else nn.Linear(key_width, width, bias=False)
        super().__init__(query_map, key_map, width or query_width)


class ScaledDotScore(DotScore):
    """q · k / √A."""

    def compare(self, queries: Tensor, keys: SharedTensor) -> Tensor:
        return keys.compare(queries / queries.shape[-1] ** 0.5)

    def compare_own(self, queries: Tensor, own: Tensor) -> Tensor:
        return super().compare_own(queries / queries.shape[-1] ** 0.5, own)


class GeneralScore(Score):
    """qᵀ W k, Luong's bilinear form: the keys are mapped to the queries' width once an image; `width` plays no part."""

    def __init__(self, query_width: int, key_width: int, width: int | None = None) -> None:
        super().__init__(None, nn.Linear(key_width, query_width, bias=False), query_width)


SCORES: dict[str, type[Score]] = {
    "additive": AdditiveScore,
    "concat": ConcatScore,
    "dot": DotScore,
    "general": GeneralScore,
    "scaled_dot": ScaledDotScore,
}
