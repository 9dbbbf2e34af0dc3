"""Draws of keys with the weights as probabilities, and the context and log-probability that follow from them.

All draws are Gumbel-max (index = argmax of log w + Gumbel noise, here as w / exponential noise), so that they need no
loop, no synchronization with the device and no weights that sum exactly to one.
"""

import torch
from torch import Tensor

from captioning.attention.attended import Attended
from captioning.attention.normalizers import safe_log
from captioning.attention.scored import Values


def attended_at(
    index: Tensor, weights: Tensor, values: Values, log_weights: Tensor | None, sampled: Tensor | None = None
) -> Attended:
    """The value at `index`; where not `sampled`, if that is given, the mean of all, with log-probability 0."""
    picked, log_probability = chosen_value(weights, values, index, log_weights)
    if sampled is None:
        return Attended(picked, weights, index, log_probability)
    context = torch.where(sampled.unsqueeze(-1), picked, values.mix(weights.to(values.dtype)))
    return Attended(context, weights, index, log_probability.masked_fill(~sampled, 0), sampled)


def attended_in_shares(
    shares: Tensor,
    glimpses: int,
    weights: Tensor,
    values: Values,
    log_weights: Tensor | None,
    sampled: Tensor | None = None,
) -> Attended:
    """The mean of `glimpses` drawn values, of which (B, N, R) `shares` fell on each key; `sampled` as in `attended_at`.

    The draws are independent: log p = Σ_k log w_{i_k} = K Σ_r share_r log w_r.
    """
    known = safe_log(weights) if log_weights is None else log_weights
    log_probability = glimpses * (shares * known.masked_fill(shares == 0, 0)).sum(-1)
    mixed = shares
    if sampled is not None:
        mixed = torch.where(sampled.unsqueeze(-1), shares, weights)
        log_probability = log_probability.masked_fill(~sampled, 0)
    return Attended(values.mix(mixed.to(values.dtype)), weights, shares.argmax(-1), log_probability, sampled)


def draw_values(
    glimpses: int,
    weights: Tensor,
    values: Values,
    log_weights: Tensor | None,
    generator: torch.Generator | None,
    sampled: Tensor | None = None,
) -> Attended:
    """The value of one draw, or the mean of several; where not `sampled`, if that is given, the mean of all."""
    if glimpses == 1:
        return attended_at(_draw(weights, generator), weights, values, log_weights, sampled)
    shares = draw_shares(glimpses, weights, generator)
    return attended_in_shares(shares, glimpses, weights, values, log_weights, sampled)


def draw_shares(draws: int, weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """(B, N, R) the share of independent draws that fell on each key; 0 in a row without any key."""
    shares = torch.zeros_like(weights, requires_grad=False)
    for _ in range(draws):
        index = _draw(weights, generator).unsqueeze(-1)
        shares.scatter_add_(-1, index, torch.full_like(shares[..., :1], 1 / draws))
    return shares.masked_fill(weights <= 0, 0)


def _draw(weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """(B, N, R) weights -> (B, N) a key with them as probabilities; 0 in a row without any key."""
    return (weights.detach() / exponential_noise(weights, generator)).argmax(-1)


def exponential_noise(weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """(B, N, R) what a weight is divided by, so that the largest quotient is a draw (Gumbel-max)."""
    noise = torch.empty_like(weights, requires_grad=False).exponential_(generator=generator)
    return noise.clamp_(min=torch.finfo(noise.dtype).tiny)


def chosen_value(
    weights: Tensor, values: Values, index: Tensor, log_weights: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The value at `index`, and log w there; both zero in a row without any key."""
    at_index = index.unsqueeze(-1)
    chosen = weights.gather(-1, at_index)
    nothing = chosen <= 0
    known = safe_log(chosen) if log_weights is None else log_weights.gather(-1, at_index)
    context = values.pick(index).masked_fill(nothing, 0)
    return context, known.masked_fill(nothing, 0).squeeze(-1)
