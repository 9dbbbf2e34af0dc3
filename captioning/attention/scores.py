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

    Without a map (None) the raw vectors are compared.
    """

    def __init__(self, query_map: nn.Linear | None, key_map: nn.Linear | None) -> None:
        super().__init__()
        self.query_map = query_map
        self.key_map = key_map

    def remember(self, keys: Tensor) -> ScoreMemory:
        """(B, R, Dk) keys -> their projection and the query's map, in the keys' number type."""
        dtype = keys.dtype
        projected = keys if self.key_map is None else linear(self.key_map, keys)
        project = _identity if self.query_map is None else SharedWeight(self.query_map.weight.to(dtype))
        return ScoreMemory(self._share(projected), project)

    def forward(self, queries: Tensor, memory: ScoreMemory) -> Tensor:
        """(B', N, Dq) queries over the first B' images of the memory -> (B', N, R) scores."""
        return self.compare(memory.project_query(queries), memory.keys)

    def _share(self, keys: Tensor) -> SharedTensor:
        return SharedTensor(keys)

    def compare(self, queries: Tensor, keys: SharedTensor) -> Tensor:
        """(B', N, A) projected queries, (B, R, A) projected keys -> (B', N, R)."""
        raise NotImplementedError


def _identity(tensor: Tensor) -> Tensor:
    return tensor


class AdditiveScore(Score):
    """vᵀ tanh(W_q q + W_k k + b): queries and keys may differ in width; A is the attention space."""

    def __init__(self, query_width: int, key_width: int, width: int, *, activation: str = "tanh") -> None:
        super().__init__(nn.Linear(query_width, width, bias=False), nn.Linear(key_width, width))
        if activation not in ACTIVATIONS:
            raise ConfigError(f"additive activation: expected one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        self.activation = activation
        self.vector = nn.Parameter(torch.empty(width).uniform_(-(width**-0.5), width**-0.5))

    def _share(self, keys: Tensor) -> SharedTensor:
        return AdditiveKeys(keys, self.vector.to(keys.dtype), activation=self.activation)

    def compare(self, queries: Tensor, keys: SharedTensor) -> Tensor:
        assert isinstance(keys, AdditiveKeys)
        return keys.compare_additively(queries)


class DotScore(Score):
    """q · k. With a `width`, after one linear map of each to that attention space; without, Dq must equal Dk."""

    def __init__(self, query_width: int, key_width: int, width: int | None) -> None:
        if width is None and query_width != key_width:
            raise ConfigError(
                f"dot score: expected queries and keys of one width, got {query_width} and {key_width}; "
                "give a width of the attention space to map both to"
            )
        query_map = None if width is None else nn.Linear(query_width, width, bias=False)
        key_map = None if width is None else nn.Linear(key_width, width, bias=False)
        super().__init__(query_map, key_map)

    def compare(self, queries: Tensor, keys: SharedTensor) -> Tensor:
        return keys.compare(queries)


class ScaledDotScore(DotScore):
    """q · k / √A."""

    def compare(self, queries: Tensor, keys: SharedTensor) -> Tensor:
        return keys.compare(queries / queries.shape[-1] ** 0.5)


class GeneralScore(Score):
    """qᵀ W k, Luong's bilinear form: the keys are mapped to the queries' width once an image."""

    def __init__(self, query_width: int, key_width: int, width: int | None = None) -> None:
        super().__init__(None, nn.Linear(key_width, query_width, bias=False))

    def compare(self, queries: Tensor, keys: SharedTensor) -> Tensor:
        return keys.compare(queries)


SCORES: dict[str, type[Score]] = {
    "additive": AdditiveScore,
    "dot": DotScore,
    "general": GeneralScore,
    "scaled_dot": ScaledDotScore,
}
