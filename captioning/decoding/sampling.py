"""Captions drawn word by word from the model's own distribution, or from a sharper or shorter one.

    p'(v) ∝ p(v)^(1/τ) over the words that the constraints allow, then among the `top_k` likeliest of them, then among
    the fewest likeliest whose probabilities together reach `top_p`; renormalised.

(Fan et al., 2018, arXiv 1805.04833; Holtzman et al., 2020, arXiv 1904.09751.) The log-probabilities that come back are
the model's, not those of p', so teacher forcing gives them again.
"""

import torch
from torch import Tensor

from captioning.decoding.choosing import Chooser, Open
from captioning.decoding.constraints import Constraints
from captioning.decoding.loop import run_search
from captioning.decoding.ranking import LengthPenalty
from captioning.decoding.step import Hypothesis, State, Step
from captioning.decoding.trace import Choice
from captioning.errors import ConfigError

FIRST_LOOK, WIDENING = 128, 8  # top_p sorts so many likeliest words first, and more only where they do not suffice.


def sample(
    step: Step[State],
    *,
    start: Tensor,
    constraints: Constraints,
    samples: int = 1,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    ranking: str | LengthPenalty = "average",
    generator: torch.Generator | None = None,
) -> list[list[Hypothesis]]:
    """`samples` independent captions an image, ordered by score; doubles stay.

    A sample that reaches the longest length, or has no allowed word left, is cut off. generator: where the numbers come
    from; default is torch's global one. Raises ConfigError for numbers that make no distribution, and for words that
    must appear.
    """
    if constraints.must_include:
        raise ConfigError("must_include: expected no words with sampling: a drawn word can't be steered; use a beam")
    uniforms = image_uniforms(len(start), samples, constraints.maximum_length, generator)
    exact = torch.float32 if start.device.type == "mps" else torch.float64  # which has no float64
    chooser = Draws(uniforms.to(start.device, exact), temperature=temperature, top_k=top_k, top_p=top_p)
    return run_search(step, start=start, constraints=constraints, chooser=chooser, ranking=ranking)


def image_uniforms(images: int, samples: int, length: int, generator: torch.Generator | None = None) -> Tensor:
    """(B, M, T) float64 in [0, 1): for each word of each sample a number, from a generator of its image's own.

    The images' generators take their seeds one after another from `generator`, so that an image's numbers hang neither
    on its companions nor on how a set is cut into batches.
    """
    if samples < 1:
        raise ConfigError(f"samples: expected at least 1, got {samples}")
    seeds = torch.randint(2**63 - 1, (images,), generator=generator).tolist()
    own = (torch.Generator().manual_seed(seed) for seed in seeds)
    rows = [torch.rand(samples, length, dtype=torch.float64, generator=each) for each in own]
    return torch.stack(rows) if rows else torch.zeros(0, samples, length, dtype=torch.float64)


class Draws(Chooser):
    """Each hypothesis is a sample, and a group, of its own: word t of sample m is where uniforms[b, m, t] falls."""

    width = 1

    def __init__(
        self, uniforms: Tensor, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
    ) -> None:
        if not temperature > 0:
            raise ConfigError(f"temperature: expected a number > 0, got {temperature}; greedy takes the likeliest word")
        if top_k is not None and top_k < 1:
            raise ConfigError(f"top_k: expected at least 1, got {top_k}")
        if top_p is not None and not 0 < top_p <= 1:
            raise ConfigError(f"top_p: expected a probability in (0, 1], got {top_p}")
        self.uniforms = uniforms.clamp(max=1 - torch.finfo(uniforms.dtype).eps)
        self.temperature, self.groups = temperature, uniforms.shape[1]
        self.top_k, self.top_p = top_k, None if top_p == 1 else top_p

    def choose(self, allowed: Tensor, opened: Open) -> Choice:
        """As for all."""
        highest = allowed.amax(-1, keepdim=True)
        relative = allowed - highest.masked_fill(highest == -torch.inf, 0)
        masses, words = self._candidates((relative.float() / self.temperature).exp_())
        cumulative = masses.cumsum(-1, dtype=self.uniforms.dtype)
        at = self.uniforms[opened.images, :, opened.said.shape[-1]].unsqueeze(-1)
        drawn = torch.searchsorted(cumulative, at * cumulative[..., -1:], right=True)
        drawn = drawn.clamp_(max=masses.shape[-1] - 1)  # Where nothing is allowed there is no place for it.
        drawn = drawn if words is None else words.gather(-1, drawn)
        log_probabilities = allowed.gather(-1, drawn).where(~highest.isnan(), highest).squeeze(-1).float()
        places = torch.arange(self.groups, device=allowed.device).expand_as(opened.totals)
        return Choice(opened.totals + log_probabilities, log_probabilities, drawn.squeeze(-1), places)

    def _candidates(self, masses: Tensor) -> tuple[Tensor, Tensor | None]:
        """Masses (B, M, V) -> those (B, M, C) to draw by, and the words (B, M, C) they are of; None: all in order."""
        words = None
        if self.top_k is not None:
            masses, words = masses.topk(min(self.top_k, masses.shape[-1]))
        if self.top_p is not None:
            masses, places = nucleus(masses, self.top_p)
            words = places if words is None else words.gather(-1, places)
        return masses, words


def nucleus(masses: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The fewest largest of masses (..., V) that reach `share` of their sum: largest first, 0 after them; their places.

    A place is left out where those before it reach the share already.
    """
    wanted, looked = share * masses.sum(-1, keepdim=True), FIRST_LOOK
    while True:
        likeliest, places = masses.topk(min(looked, masses.shape[-1]))
        reached = likeliest.cumsum(-1)
        if looked >= masses.shape[-1] or (reached[..., -1:] >= wanted).all():
            return likeliest.masked_fill(reached - likeliest >= wanted, 0), places
        looked *= WIDENING
