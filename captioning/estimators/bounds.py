"""Sums over the regions instead of samples of them: exact for one word, and bounds on the likelihood of a caption."""

from math import log
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F


def step_bound(log_weights: Tensor, log_likelihoods: Tensor) -> Tensor:
    """Σ_i α_i log p(y_t | i): the term of the paper's bound for one word, summed exactly; (..., R) -> (...).

    A weight of zero counts nothing, whatever the likelihood there.
    """
    weights = log_weights.exp()
    return (weights * log_likelihoods.masked_fill(weights == 0, 0)).sum(-1)


class StepMarginal(NamedTuple):
    """The paper's bound with the present word summed over all regions, and later words along the path that was drawn.

    m_t = Σ_i α_ti log p(y_t | s_<t, i) is the exact expectation over s_t, so that choice answers only for later words:

        ∂/∂θ E[Σ_t log p(y_t | s_≤t)] = E[Σ_t ∂m_t/∂θ + Σ_t (Σ_{u>t} m_u − b_t) ∂log π(s_t)/∂θ]
    """

    terms: Tensor
    """(..., T) m_t, with their gradient; 0 where there is no word."""
    rewards: Tensor
    """(..., T) what stands for the reward of step t when returns are taken: m_{t+1}."""
    answers: Tensor
    """(..., T) boolean, the choices that answer for anything: all but the one for the last word."""


def step_marginal(log_weights: Tensor, log_likelihoods: Tensor, exists: Tensor) -> StepMarginal:
    """From log α_t and log p(y_t | s_<t, i), (..., T, R) each, and the words that exist (..., T).

    The loss is −Σ m_t; to it belongs `score_function` of log π(s_t), with returns of `rewards` over `answers`.
    """
    terms = step_bound(log_weights, log_likelihoods).masked_fill(~exists, 0)
    return StepMarginal(terms, F.pad(terms[..., 1:], (0, 1)).detach(), F.pad(exists[..., 1:], (0, 1)))


def log_marginal(log_weights: Tensor, log_likelihoods: Tensor) -> Tensor:
    """log p(y_t) = log Σ_i α_i p(y_t | i), (..., R) -> (...); at least `step_bound`, by Jensen's inequality.

    Where the state does not see what was attended, the sum of these over t is the exact log-likelihood of a caption
    (Wu, Shapiro and Cotterell, 2018).
    """
    return (log_weights + log_likelihoods).logsumexp(-1)


def importance_weighted(log_ratios: Tensor) -> Tensor:
    """log (1/K) Σ_k p(y, s_k) / q(s_k), (..., K) -> (...) from log-ratios of samples s_k ~ q.

    A lower bound on log p(y) in expectation, tighter with every sample (Burda, Grosse and Salakhutdinov, 2016). With
    q = π the ratio is the likelihood of the words given the sampled regions.
    """
    return log_ratios.logsumexp(-1) - log(log_ratios.shape[-1])
