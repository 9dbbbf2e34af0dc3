"""Every mechanism of attention at one size, ours and torch's, as jobs that can be timed and weighed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from captioning.attention import NORMALIZERS, SCORES, Attention, MultiHeadAttention
from captioning.attention.additive import additive
from scripts.benchmarking.floor import Work
from scripts.benchmarking.setting import Setting

HEADS = 8
STEPS = 20
"""Steps of a caption: one step alone is too short to be printed in seconds."""

Prepared = tuple[Callable[[], Tensor], list[Tensor]]
"""What attends once, and the leaves that its gradient goes to."""


@dataclass(frozen=True)
class Size:
    """Queries (B, N, A) over keys (B, R, A) that are the values too."""

    images: int
    queries: int
    regions: int
    width: int = 512


def inputs(size: Size) -> tuple[Tensor, Tensor]:
    """Queries and keys, both with a gradient."""
    torch.manual_seed(1)
    queries = torch.randn(size.images, size.queries, size.width, requires_grad=True)
    return queries, torch.randn(size.images, size.regions, size.width, requires_grad=True)


def from_parts(size: Size, *, score: str, normalizer: str) -> Prepared:
    """`Attention` with this score and normalizer, keys projected anew as in training."""
    queries, keys = inputs(size)
    attention = Attention(
        query_width=size.width, key_width=size.width, width=size.width, score=score, normalizer=normalizer
    )
    return lambda: attention(queries, attention.remember(keys)).context, [queries, keys, *attention.parameters()]


def with_heads(size: Size, *, need_weights: bool) -> Prepared:
    """`MultiHeadAttention`, in the open or by the fused kernels."""
    queries, keys = inputs(size)
    attention = MultiHeadAttention(query_width=size.width, heads=HEADS)
    return lambda: attention(queries, keys, need_weights=need_weights)[0], [queries, keys, *attention.parameters()]


def torch_fused(size: Size) -> Prepared:
    """The yardstick: torch's fused kernel of one head, behind one linear map of queries and one of keys."""
    queries, keys = inputs(size)
    maps = [nn.Linear(size.width, size.width, bias=False) for _ in range(2)]

    def attend() -> Tensor:
        query, key, value = maps[0](queries).unsqueeze(1), maps[1](keys).unsqueeze(1), keys.unsqueeze(1)
        return F.scaled_dot_product_attention(query, key, value)

    return attend, [queries, keys, *(each.weight for each in maps)]


def torch_with_heads(size: Size) -> Prepared:
    """torch's module with as many heads."""
    queries, keys = inputs(size)
    attention = nn.MultiheadAttention(size.width, HEADS, batch_first=True)
    return lambda: attention(queries, keys, keys, need_weights=False)[0], [queries, keys, *attention.parameters()]


MECHANISMS: dict[str, Callable[[Size], Prepared]] = {
    "torch fused": torch_fused,
    "torch multi-head": torch_with_heads,
    "multi-head, fused": partial(with_heads, need_weights=False),
    "multi-head, weights": partial(with_heads, need_weights=True),
    **{
        f"{score}, {normalizer}": partial(from_parts, score=score, normalizer=normalizer)
        for score in SCORES
        for normalizer in NORMALIZERS
    },
}


def forward(name: str, size: Size) -> Callable[[], object]:
    """A job that attends without a gradient."""
    attend, _ = MECHANISMS[name](size)
    return torch.no_grad()(attend)


def forward_and_backward(name: str, size: Size) -> Callable[[], object]:
    """A job that attends and computes every gradient; `uniform` gives the scores none."""
    attend, leaves = MECHANISMS[name](size)
    return lambda: torch.autograd.grad(attend().sum(), leaves, allow_unused=True)


def our_steps(setting: Setting, dtype: torch.dtype, *, score: str) -> Callable[[], object]:
    """The attention steps of a caption, without gradient, on keys that were remembered before."""
    regions, queries, attention = _step_inputs(setting, dtype, score)
    with torch.no_grad():
        memory = attention.remember(regions)
    return torch.no_grad()(lambda: [attention(query, memory) for query in queries])


def plain_steps(setting: Setting, dtype: torch.dtype, *, score: str) -> Callable[[], object]:
    """The same steps written down plainly in torch, with the keys remembered too."""
    regions, queries, attention = _step_inputs(setting, dtype, score)
    maps = attention.to(dtype).score
    with torch.no_grad():
        keys = maps.key_map(regions)

    def step(query: Tensor) -> Tensor:
        if score == "scaled_dot":
            return F.scaled_dot_product_attention(maps.query_map(query), keys, regions)
        return additive(maps.query_map(query), keys, maps.vector).softmax(-1) @ regions

    return torch.no_grad()(lambda: [step(query) for query in queries])


def step_work(setting: Setting, *, score: str) -> Work:
    """What the steps move and compute at least: each reads W_q, queries, keys and values and writes contexts.

    Its few multiplications for each number that is read hide behind the reading and are not counted.
    """
    B, R, D, A = setting.images, setting.regions, setting.region_width, setting.width
    tanhs = float(B * R * A) if score == "additive" else 0.0
    return Work(elements=float(A * A + 2 * B * A + B * R * (A + D) + B * D), tanhs=tanhs) * STEPS


def _step_inputs(setting: Setting, dtype: torch.dtype, score: str) -> tuple[Tensor, list[Tensor], Attention]:
    generator = torch.Generator().manual_seed(1)
    regions = setting.features(generator).regions.to(dtype)
    queries = torch.randn(STEPS, setting.images, 1, setting.width, generator=generator).to(dtype)
    torch.manual_seed(2)
    attention = Attention(query_width=setting.width, key_width=setting.region_width, width=setting.width, score=score)
    return regions, list(queries), attention.eval()
