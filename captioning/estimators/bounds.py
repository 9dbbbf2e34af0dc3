"""Sums over the regions instead of samples of them: exact for one word, and bounds on the likelihood of a caption."""

from math import log

from torch import Tensor


def step_bound(log_weights: Tensor, log_likelihoods: Tensor) -> Tensor:
    """Σ_i α_i log p(y_t | i): the term of the paper's bound for one word, summed exactly; (..., R) -> (...).

    A weight of zero counts nothing, whatever the likelihood there.
    """
    weights = log_weights.exp()
    return (weights * log_likelihoods.masked_fill(weights == 0, 0)).sum(-1)


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
