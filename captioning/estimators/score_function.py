"""The score-function estimator (REINFORCE; Williams, 1992) of the gradient of an expected reward.

    ∂/∂θ E[Σ_t r_t] = E[Σ_t ∂r_t/∂θ + Σ_t (G_t − b_t) ∂log π(s_t)/∂θ]

with G_t what followed the choice s_t and b_t anything that does not depend on s_t. The first sum is autograd's own; the
second is the gradient of −`score_function`. Rewards, returns and baselines enter it without gradient.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from captioning.errors import ConfigError


def reward_to_go(rewards: Tensor, exists: Tensor) -> Tensor:
    """G_t = Σ_{u ≥ t} r_u: a choice is answerable for nothing before it. (..., T) -> (..., T), without gradient."""
    kept = rewards.detach().masked_fill(~exists, 0)
    return kept.flip(-1).cumsum(-1).flip(-1)


def whole_reward(rewards: Tensor, exists: Tensor) -> Tensor:
    """G_t = Σ_u r_u, the whole caption's at every step, as the paper has it. (..., T) -> (..., T), without gradient."""
    total = rewards.detach().masked_fill(~exists, 0).sum(-1, keepdim=True)
    return total.expand_as(rewards)


RETURNS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"to_go": reward_to_go, "whole": whole_reward}


def score_function(log_probabilities: Tensor, returns: Tensor, baseline: Tensor, exists: Tensor) -> Tensor:
    """−Σ_t (G_t − b_t) log π(s_t) over the steps that exist, (..., T) -> (...): add it to a loss that is −Σ r.

    Its value means nothing; its gradient is the estimate. λ_r = 1 times it is exact in expectation.
    """
    advantage = (returns - baseline).detach().masked_fill(~exists, 0)
    return -(advantage * log_probabilities.masked_fill(~exists, 0)).sum(-1)


class EntropyTerms(NamedTuple):
    """How a bonus λ Σ_t H_t on the entropy of the choices enters loss and rewards."""

    loss: Tensor
    """(...) to be added to the loss, with its gradient."""
    rewards: Tensor | None
    """(..., T) to be added to the rewards before returns are taken; None: nothing."""


def entropy_terms(entropies: Tensor, exists: Tensor, *, weight: float, kind: str) -> EntropyTerms:
    """−λ Σ_t H_t, H_t = H[π(· | s_<t)] (..., T) along the path that was drawn.

    pathwise: the paper's form, which lets the gradient through H_t alone. Since earlier choices move H_t too, it is a
    biased estimate of ∂E[Σ H]. exact: the entropies are also a reward of those choices, which makes it unbiased.
    Raises ConfigError for another kind.
    """
    if kind not in ("pathwise", "exact"):
        raise ConfigError(f"entropy: expected pathwise or exact, got {kind!r}")
    bonus = weight * entropies.masked_fill(~exists, 0)
    return EntropyTerms(-bonus.sum(-1), bonus.detach() if kind == "exact" else None)
