"""The gradient that is to be estimated: that of the mean caption loss over all ways to look."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from captioning.data.batch import GivenCaptions
from captioning.decoders.glimpses import choices, read_glimpses
from captioning.decoders.recurrent import RecurrentDecoder
from captioning.estimators import all_paths, exact_expectation
from captioning.features.image_features import ImageFeatures

SCORE_NETWORK, WHOLE_DECODER = "score network", "whole decoder"
"""The parts of the gradient that are judged: of the attention's parameters, which get none but through an estimator,
and of all the decoder's."""
TOGETHER = 512
"""Paths that are read at once."""


@dataclass(frozen=True)
class Problem(GivenCaptions):
    """∂/∂θ of the mean over captions of E_s[−Σ_t log p(y_t | s_≤t)], with s_t drawn by the attention's weights."""

    decoder: RecurrentDecoder
    """Whose parameters θ are. Without dropout."""
    features: ImageFeatures
    """Of B images."""
    words: Tensor
    """(B, M, T+1) START w1 ... PAD, as in a batch."""

    @cached_property
    def choices(self) -> int:
        """C, among how many each step chooses."""
        return choices(self.decoder, self.features)

    @cached_property
    def state_width(self) -> int:
        """H, of the state before each choice."""
        with torch.no_grad():
            one = self.first_words(1)
            return read_glimpses(one.decoder, one.features, one.inputs, one.targets).states.shape[-1]

    @property
    def paths(self) -> int:
        """How many ways to look the longest caption has."""
        return self.choices ** self.words[0, 0, 1:].numel()

    def first_words(self, most: int) -> "Problem":
        """The same of each caption's first words only."""
        return replace(self, words=self.words[..., : most + 1])

    def repeated(self, times: int) -> "Problem":
        """Every caption `times` times, one after the other; it is a mean over all of them then."""
        return replace(self, words=self.words.repeat_interleave(times, dim=1))

    def gradient(self, loss: Tensor, *, keep: bool = False) -> Tensor:
        """(P,) of a loss, in the order of the decoder's parameters, in main memory; `keep`: the graph is used again."""
        parameters = [each for each in self.decoder.parameters() if each.requires_grad]
        found = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=keep)
        pairs = zip(parameters, found, strict=True)
        return torch.cat([(torch.zeros_like(own) if each is None else each).flatten() for own, each in pairs]).cpu()

    @cached_property
    def parts(self) -> dict[str, Tensor]:
        """Name -> (P,) boolean, the components of the gradient that belong to it."""
        attention = self.decoder.attention
        own = {id(each) for each in attention.parameters()} if isinstance(attention, nn.Module) else set()
        kept = [each for each in self.decoder.parameters() if each.requires_grad]
        masks = [torch.full((each.numel(),), id(each) in own) for each in kept]
        of_scores = torch.cat(masks)
        return {SCORE_NETWORK: of_scores, WHOLE_DECODER: torch.ones_like(of_scores)}


class Exact(NamedTuple):
    """The exact gradient, and what of it hangs on rare paths."""

    gradient: Tensor
    """(P,) Σ_s π(s) (∂L_s + L_s ∂log π(s)) over all paths, L_s = −log p(y | s)."""
    rare: Tensor
    """(P,) the same with L_s − E[L] before ∂log π(s), over the paths with π(s) < 1 / draws: what an estimator with a
    constant baseline gets from paths that so many draws are likely to miss."""


def exact_gradient(problem: Problem, draws: int = 1) -> Exact:
    """By listing every path of every caption. Raises ConfigError where there are too many."""
    there = problem.is_word[..., 0].nonzero().tolist()
    parts = zip(*(_exact_of(problem, image, caption, draws) for image, caption in there), strict=True)
    return Exact(*(torch.stack(each).mean(0) for each in parts))


def _exact_of(problem: Problem, image: int, caption: int, draws: int) -> Exact:
    steps = int(problem.is_word[image, caption].sum())
    features = problem.features.rows_of(torch.tensor([image], device=problem.words.device))
    words = problem.words[image : image + 1, caption : caption + 1, : steps + 1]

    def read(paths: Tensor) -> tuple[Tensor, Tensor]:
        """log π(s) and L_s of these paths, step by step."""
        own = words.expand(-1, len(paths), -1)
        found = read_glimpses(problem.decoder, features, own[..., :-1], own[..., 1:], paths=paths.unsqueeze(0))
        assert found.log_probabilities is not None
        return found.log_probabilities[0], -found.log_likelihoods[0]

    chunks = all_paths(problem.choices, steps).to(words.device).split(TOGETHER)
    with torch.no_grad():
        expected = torch.stack([exact_expectation(*read(paths)) for paths in chunks]).sum()
    gradient = rare = torch.zeros(())
    for paths in chunks:
        logs, losses = read(paths)
        chances, loss = logs.sum(-1).exp(), losses.sum(-1)
        hangs = chances.detach() * loss + (loss - expected).detach() * chances
        seldom = hangs[chances < 1 / draws].sum()
        rare = rare + problem.gradient(seldom, keep=True).double()
        gradient = gradient + problem.gradient(exact_expectation(logs, losses)).double()
    return Exact(gradient, rare)
