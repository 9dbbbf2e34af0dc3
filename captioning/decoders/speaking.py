"""Captions that a decoder says by itself, drawn word by word, and how it reads them again with a gradient.

Training on rewards needs both: first the captions, without a gradient; then one reading of all of them, whose
log-probabilities are exactly those that they were drawn with. A decoder that samples regions must look, on reading, at
the cells that it had drawn: `replaying` sees to that.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from captioning.attention import Attention
from captioning.attention.given import Replay
from captioning.decoders.decoder import Decoder
from captioning.decoders.recurrent import CELL, SAMPLED
from captioning.decoders.rule import selecting
from captioning.features.image_features import ImageFeatures
from captioning.text.vocabulary import END, PAD, START


@dataclass(frozen=True)
class Spoken:
    """M captions of each of B images, of at most T words."""

    words: Tensor
    """(B, M, T + 1) int64: START w1 .. wn END PAD ...; without END where a caption was cut off."""
    cells: Tensor | None
    """(B, M, T) the cell that was chosen for each word; None where all were mixed."""
    sampled: Tensor | None
    """(B, M, T) boolean, of `mixed` attention: whether that cell was seen, else the mean of all."""


@torch.no_grad()
def speak(
    decoder: Decoder,
    features: ImageFeatures,
    *,
    captions: int,
    longest: int,
    never: Sequence[int] = (PAD, START),
    likeliest: bool = False,
) -> Spoken:
    """Draw `captions` captions an image, word by word, from the decoder's own distribution over all words but `never`.

    With `likeliest`, each word is the likeliest instead.

    The decoder is used as it stands, in training or evaluation mode; what is drawn comes from torch's generator.
    """
    memory, state = decoder.start(features)
    latest = torch.full((len(features), captions), START, device=features.regions.device)
    state = state.reorder(torch.zeros_like(latest))
    speaking = torch.ones_like(latest, dtype=torch.bool)
    words, chosen = [latest], []
    while len(words) <= longest and speaking.any():
        said = decoder.advance(memory, state, latest)
        state = said.state
        possible = sayable(said.log_probabilities, never)
        latest = torch.where(speaking, possible.argmax(-1) if likeliest else _draw(possible), PAD)
        words.append(latest)
        chosen.append(said.details)
        speaking = speaking & (latest != END)
    cells, sampled = (
        torch.stack([details[name] for details in chosen], -1) if name in chosen[0] else None
        for name in (CELL, SAMPLED)
    )
    return Spoken(torch.stack(words, -1), cells, None if sampled is None or sampled.all() else sampled)


def sayable(logits: Tensor, never: Sequence[int]) -> Tensor:
    """(..., V) logits -> float32 log-probabilities of all words but `never`, whose own are −∞."""
    never_index = torch.tensor(list(never), device=logits.device, dtype=torch.int64)
    return logits.float().index_fill(-1, never_index, -torch.inf).log_softmax(-1)


@contextmanager
def replaying(decoder: Decoder, spoken: Spoken) -> Iterator[None]:
    """Inside, each reading step selects the cells that were chosen when the captions were spoken."""
    if spoken.cells is None:
        yield
        return
    with selecting(cast(Attention, decoder.attention), Replay(spoken.cells, spoken.sampled)):
        yield


def _draw(log_probabilities: Tensor) -> Tensor:
    noise = torch.empty_like(log_probabilities).exponential_()
    return (log_probabilities.exp() / noise.clamp_(min=torch.finfo(noise.dtype).tiny)).argmax(-1)
