"""Selection: weights and values become a context. Soft and hard differ here and nowhere else."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import Function

from captioning.attention.attended import Attended
from captioning.attention.drawing import chosen_value, draw_shares, draw_values, exponential_noise
from captioning.attention.normalizers import safe_log, softmax
from captioning.attention.scored import Values
from captioning.errors import ConfigError, ShapeError


class Selection(nn.Module):
    """What all selections have in common: the call."""

    needs_log_weights = False
    """Whether exact logarithms of the weights are worth computing."""

    def forward(
        self,
        weights: Tensor,
        values: Values,
        *,
        log_weights: Tensor | None = None,
        generator: torch.Generator | None = None,
        coins: Tensor | None = None,
    ) -> Attended:
        """(B', N, R) weights over the first B' images of (B, R, Dv) values -> context and what was chosen.

        log_weights: (B', N, R), for weights whose logarithm is known better than log(weights). generator: where random
        choices (and dropout) come from; default is torch's global one. coins: read by `mixed` only.
        """
        raise NotImplementedError


class Soft(Selection):
    """The expected value Σ_j w_j v_j: it lies in the convex hull of the available values.

    `dropout`, in training only, zeroes weights at random and enlarges the rest: then they need not sum to one.
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ConfigError(f"attention dropout: expected a probability in [0, 1), got {dropout}")
        self.dropout = dropout

    def forward(
        self,
        weights: Tensor,
        values: Values,
        *,
        log_weights: Tensor | None = None,
        generator: torch.Generator | None = None,
        coins: Tensor | None = None,
    ) -> Attended:
        if self.training and self.dropout:
            kept = torch.empty_like(weights, requires_grad=False).bernoulli_(1 - self.dropout, generator=generator)
            weights = weights * kept / (1 - self.dropout)
        return Attended(values.mix(weights.to(values.dtype)), weights)


class Hard(Selection):
    """One value, drawn with the weights as probabilities. Its expectation is the soft context.

    No gradient reaches the scores through the context; estimators use `log_probability`. With `glimpses` K above 1 the
    context is the mean of K such values, drawn independently: what the rule `mean_of_k` shows at test time.
    """

    needs_log_weights = True

    def __init__(self, glimpses: int = 1) -> None:
        super().__init__()
        if glimpses < 1:
            raise ConfigError(f"hard selection: expected at least 1 glimpse, got {glimpses}")
        self.glimpses = glimpses

    def forward(
        self,
        weights: Tensor,
        values: Values,
        *,
        log_weights: Tensor | None = None,
        generator: torch.Generator | None = None,
        coins: Tensor | None = None,
    ) -> Attended:
        return draw_values(self.glimpses, weights, values, log_weights, generator)


class Argmax(Selection):
    """The value at the largest weight (the first of equal ones). Inference only: it gives the scores no gradient."""

    def forward(
        self,
        weights: Tensor,
        values: Values,
        *,
        log_weights: Tensor | None = None,
        generator: torch.Generator | None = None,
        coins: Tensor | None = None,
    ) -> Attended:
        """As for all; raises ConfigError in training mode where the weights ask for a gradient."""
        if self.training and weights.requires_grad:
            raise ConfigError(
                "selection argmax: expected inference, got training: it gives the scores no gradient; "
                "call eval(), or train with soft, hard, gumbel or mixed"
            )
        index = weights.argmax(-1)
        return Attended(chosen_value(weights, values, index)[0], weights, index)


class Gumbel(Selection):
    """Straight-through Gumbel-softmax: forward one drawn value, backward as if y had mixed the values.

        y = softmax((log w + g) / τ),   index = argmax(log w + g),   g standard Gumbel

    Jang, Gu and Poole (2017); Maddison, Mnih and Teh (2017). `temperature` is an attribute, to be lowered in training.
    The gradient needs no `log_probability`, so there is none: a score-function term on top would count it twice.
    """

    needs_log_weights = True

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not temperature > 0:
            raise ConfigError(f"Gumbel temperature: expected a number > 0, got {temperature}")
        self.temperature = temperature

    def forward(
        self,
        weights: Tensor,
        values: Values,
        *,
        log_weights: Tensor | None = None,
        generator: torch.Generator | None = None,
        coins: Tensor | None = None,
    ) -> Attended:
        logarithms = safe_log(weights) if log_weights is None else log_weights
        possible = ~logarithms.isneginf()
        perturbed = logarithms - exponential_noise(weights, generator).log()
        index = perturbed.detach().argmax(-1)
        relaxed = softmax(perturbed, possible, temperature=self.temperature)
        one_hot = torch.zeros_like(relaxed).scatter_(-1, index.unsqueeze(-1), 1) * possible
        choice = _StraightThrough.apply(relaxed, one_hot)
        return Attended(values.mix(choice.to(values.dtype)), weights, index)


class Mixed(Selection):
    """Per image a coin between hard and soft, which lowers the variance of the gradient (Xu et al., 2015, section 4.1).

    A call tosses one coin for each (image, query), heads with `probability`; `coins` that are handed in are used
    instead, so that a decoder can `toss` once and keep the coin for the whole caption. With `shared`, all images of a
    call share one coin, as in the paper's released code. `glimpses` is as in `Hard`. All are attributes, to be changed
    in training.
    """

    needs_log_weights = True

    def __init__(self, probability: float = 0.5) -> None:
        super().__init__()
        if not 0 <= probability <= 1:
            raise ConfigError(f"mixed selection: expected a probability in [0, 1], got {probability}")
        self.probability, self.shared, self.glimpses = probability, False, 1

    def toss(self, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, N, ...) -> coins (B, N) boolean, True = hard."""
        tossed = torch.rand(like.shape[:2], device=like.device, generator=generator) < self.probability
        return tossed[:1, :1].expand(like.shape[:2]) if self.shared else tossed

    def forward(
        self,
        weights: Tensor,
        values: Values,
        *,
        log_weights: Tensor | None = None,
        generator: torch.Generator | None = None,
        coins: Tensor | None = None,
    ) -> Attended:
        """As for all; coins (B', N) boolean, True = hard."""
        sampled = self.toss(weights, generator) if coins is None else coins
        if sampled.shape != weights.shape[:2] or sampled.dtype != torch.bool:
            expected = tuple(weights.shape[:2])
            raise ShapeError(f"coins: expected boolean {expected}, got {sampled.dtype} {tuple(sampled.shape)}")
        return draw_values(self.glimpses, weights, values, log_weights, generator, sampled)


class MeanOfSamples(Selection):
    """The mean of K values drawn as `Hard` draws one: between one sample and the expected value. Inference only."""

    def __init__(self, samples: int = 10) -> None:
        super().__init__()
        if samples < 1:
            raise ConfigError(f"mean of samples: expected at least 1, got {samples}")
        self.samples = samples

    def forward(
        self,
        weights: Tensor,
        values: Values,
        *,
        log_weights: Tensor | None = None,
        generator: torch.Generator | None = None,
        coins: Tensor | None = None,
    ) -> Attended:
        return Attended(values.mix(draw_shares(self.samples, weights, generator).to(values.dtype)), weights)


class _StraightThrough(Function):
    """Forward the choice exactly, backward the identity on what it was relaxed from."""

    @staticmethod
    def forward(ctx: Any, relaxed: Tensor, choice: Tensor) -> Tensor:
        return choice

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


SELECTIONS: dict[str, type[Selection]] = {
    "soft": Soft,
    "hard": Hard,
    "argmax": Argmax,
    "gumbel": Gumbel,
    "mixed": Mixed,
}
