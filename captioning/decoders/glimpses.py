"""Reading given captions glimpse by glimpse: along regions that are drawn or handed in, or all of them.

What estimators of a gradient are compared on, without dropout. Training reads through the decoder itself, which packs
words; here every caption takes T steps, and what is not a word is left to the caller to mask.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from captioning.attention import Attention
from captioning.attention.given import Given
from captioning.attention.selection import Hard, Selection
from captioning.decoders.decoder import without_dropout
from captioning.decoders.recurrent import LOG_PROBABILITY, Glimpse, RecurrentDecoder
from captioning.decoders.rule import selecting
from captioning.errors import ConfigError
from captioning.features.image_features import ImageFeatures
from captioning.tensors.precision import at_least_float32, linear


@dataclass(frozen=True)
class Glimpses:
    """Of B images × M captions × T words: the path s and what it says."""

    log_likelihoods: Tensor
    """(B, M, T) log p(y_t | s_≤t)."""
    states: Tensor
    """(B, M, T, H) h_{t-1}, the state before each choice, which holds the choices before it alone."""
    log_probabilities: Tensor | None = None
    """(B, M, T) log π(s_t | s_<t); None where nothing is drawn."""


@dataclass(frozen=True)
class EveryGlimpse:
    """A path, and at each of its steps all the ways to go on; C = R, and one more where there is a sentinel."""

    log_weights: Tensor
    """(B, M, T, C) log α_t."""
    log_likelihoods: Tensor
    """(B, M, T, C) log p(y_t | s_<t, i)."""
    chosen: Tensor
    """(B, M, T) int64 s_t."""
    states: Tensor
    """(B, M, T, H) as of Glimpses."""

    @property
    def log_probabilities(self) -> Tensor:
        """(B, M, T) log π(s_t | s_<t)."""
        return self.log_weights.gather(-1, self.chosen.unsqueeze(-1)).squeeze(-1)


def choices(decoder: RecurrentDecoder, features: ImageFeatures) -> int:
    """C, among how many a step of this decoder chooses. Raises ConfigError where it cannot choose one."""
    _attention_of(decoder)
    return features.regions.shape[1] + decoder.own_values


def read_glimpses(
    decoder: RecurrentDecoder,
    features: ImageFeatures,
    inputs: Tensor,
    targets: Tensor,
    *,
    selection: Selection | None = None,
    paths: Tensor | None = None,
) -> Glimpses:
    """Read inputs (B, M, T) and look up targets (B, M, T), seeing at each step the one region that is drawn.

    paths: (B, M, T) int64, regions that are handed in instead. selection: another one, such as soft.
    """
    given = Given()
    with _looking(decoder, given if paths is not None else selection or Hard()):
        reader = _Reader(decoder, features, inputs)
        steps = []
        for t in range(inputs.shape[-1]):
            given.index = None if paths is None else paths[..., t]
            steps.append(reader.step(t))
    shown, contexts = (torch.stack([getattr(step, name) for step in steps], 2) for name in ("shown", "context"))
    said = reader.log_likelihoods(reader.embedded, shown, contexts, targets)
    drawn = [step.details[LOG_PROBABILITY] for step in steps if LOG_PROBABILITY in step.details]
    return Glimpses(said, torch.stack(reader.states, 2), torch.stack(drawn, 2) if drawn else None)


def read_every_glimpse(
    decoder: RecurrentDecoder,
    features: ImageFeatures,
    inputs: Tensor,
    targets: Tensor,
    *,
    paths: Tensor | None = None,
) -> EveryGlimpse:
    """The same with all C choices tried at each step, C state updates a word, and one of them gone on with."""
    count, captions = choices(decoder, features), inputs.shape[1]
    given = Given()
    given.index = torch.arange(count, device=inputs.device).repeat(len(inputs), captions)
    weights, said, chosen = [], [], []
    with _looking(decoder, given):
        reader = _Reader(decoder, features, inputs)
        for t in range(inputs.shape[-1]):
            tried = reader.step(t, times=count)
            shown, contexts, logs = (
                each.unflatten(1, (captions, count))
                for each in (tried.shown, tried.context, tried.details[LOG_PROBABILITY])
            )
            vectors = reader.embedded[:, :, t].unsqueeze(2).expand(-1, -1, count, -1)
            word = targets[..., t].unsqueeze(-1).expand(-1, -1, count)
            said.append(reader.log_likelihoods(vectors, shown, contexts, word))
            weights.append(logs)
            chosen.append(_draw(logs) if paths is None else paths[..., t])
            reader.go_on_with(tried, chosen[-1])
    logs, likelihoods, path = (torch.stack(each, 2) for each in (weights, said, chosen))
    return EveryGlimpse(logs, likelihoods, path, torch.stack(reader.states, 2))


class _Reader:
    """Takes a decoder through its captions, one step of all of them at a time."""

    def __init__(self, decoder: RecurrentDecoder, features: ImageFeatures, inputs: Tensor) -> None:
        self.decoder = decoder
        self.memory = decoder.remember(features)
        self.embedded = decoder.embed(inputs, decoder.embedding.weight.dtype)
        self.gates = linear(decoder.word_gates, self.embedded)
        self.state: Any = self.memory.initial.spread(inputs.shape[1])
        self.states: list[Tensor] = []

    def step(self, t: int, times: int = 1) -> Glimpse:
        """Step t, of `times` copies of each caption side by side."""
        images, captions = self.gates.shape[:2]
        state, gates = self.state, self.gates[:, :, t]
        self.states.append(state.hidden)
        if times > 1:
            copies = torch.arange(captions, device=gates.device).repeat_interleave(times)
            state, gates = state.reorder(copies.expand(images, -1)), gates[:, copies]
        glimpse = self.decoder.step(self.memory, state, gates)
        self.state = glimpse.state
        return glimpse

    def go_on_with(self, tried: Glimpse, chosen: Tensor) -> None:
        """Of the copies of each caption keep the chosen (B, M) one."""
        captions = chosen.shape[1]
        copies = tried.shown.shape[1] // captions
        self.state = tried.state.reorder(torch.arange(captions, device=chosen.device) * copies + chosen)

    def log_likelihoods(self, vectors: Tensor, shown: Tensor, contexts: Tensor, of: Tensor) -> Tensor:
        """(B, M, ...) of the words `of`, from previous words' vectors, states and contexts (B, M, ..., ·)."""
        images = torch.arange(len(of), device=of.device).view(-1, *[1] * (of.dim() - 1))
        logits = at_least_float32(self.decoder.say(self.memory, images, vectors, shown, contexts))
        return logits.log_softmax(-1).gather(-1, of.unsqueeze(-1)).squeeze(-1)


def _draw(log_weights: Tensor) -> Tensor:
    """(B, M, C) -> (B, M), one with these weights as probabilities."""
    return torch.distributions.Categorical(logits=log_weights.detach()).sample()


@contextmanager
def _looking(decoder: RecurrentDecoder, selection: Selection) -> Iterator[None]:
    """Inside, regions are selected by `selection` as in training, but nothing is dropped."""
    modes = [(module, module.training) for module in decoder.modules()]
    decoder.train()
    try:
        with without_dropout(decoder), selecting(_attention_of(decoder), selection.train()):
            yield
    finally:
        for module, training in modes:
            module.training = training


def _attention_of(decoder: nn.Module) -> Attention:
    attention = getattr(decoder, "attention", None)
    if not isinstance(attention, Attention) or attention.luong_unnormalized:
        raise ConfigError(
            f"hard attention: expected a decoder that can look at one region, got {type(decoder).__name__}; take "
            "show_attend_tell, top_down or adaptive, with weights that sum to one"
        )
    return attention
