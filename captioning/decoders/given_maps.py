"""Reading captions with other maps than a decoder's own, to see what its own are worth.

A *look* is one set of weights over the regions. A recurrent decoder takes one for a word, a transformer one for each
head of each layer; L of them belong to a word. Given looks stand where the decoder's own weights would, and everything
after them (context, state, later words) follows from them. The weight of a sentinel stays the decoder's own: what it
leaves to the regions is spread as the given look says.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from captioning.attention import Attention
from captioning.attention.multihead import HeadMemory, MultiHeadAttention
from captioning.attention.normalizers import Normalizer, safe_log
from captioning.decoders.decoder import Decoder
from captioning.decoders.reading import Reading
from captioning.decoders.transformer import Layer, TransformerDecoder
from captioning.errors import ConfigError
from captioning.features.image_features import ImageFeatures
from captioning.tensors.packing import PackedWords
from captioning.tensors.precision import linear

Change = Callable[[Tensor], Tensor]
"""A transformer layer's own weights (B, Hn, N, R) -> those that are used."""


def read_with_own_maps(
    decoder: Decoder, features: ImageFeatures, inputs: Tensor, is_word: Tensor
) -> tuple[Reading, Tensor]:
    """As the decoder reads (see there), and its looks (n, L, R), each summing to one over the regions.

    A word that leaves the regions no weight at all, all of it being a sentinel's, has an even look.
    """
    if not isinstance(decoder, TransformerDecoder):
        reading = decoder(features, inputs, is_word)
        return reading, on_the_simplex(reading.weights).unsqueeze(1)
    heads: list[Tensor] = []

    def noted(own: Tensor) -> Tensor:
        heads.append(own)
        return own

    with ExitStack() as stack:
        for layer in _layers(decoder):
            stack.enter_context(_heads_changed(layer, noted))
        reading = decoder(features, inputs, is_word)
    looks = torch.cat(heads, 1).transpose(1, 2)  # (B, M T, L, R)
    return reading, reading.words.pack(looks.unflatten(1, inputs.shape[1:]))


def read_with_maps(
    decoder: Decoder, features: ImageFeatures, inputs: Tensor, is_word: Tensor, looks: Tensor
) -> Reading:
    """As the decoder reads, with `looks` (n, L, R), a row a word as in a reading, in the place of its own.

    Raises ConfigError for a decoder without attention.
    """
    by_place = PackedWords.of(is_word).unpack(looks)  # (B, M, T, L, R)
    by_place = nn.functional.pad(by_place, (0, 0, 0, 0, 0, inputs.shape[-1] - by_place.shape[2]))
    with ExitStack() as stack:
        if isinstance(decoder, TransformerDecoder):
            flat = by_place.flatten(1, 2).transpose(1, 2)  # (B, L, M T, R)
            layers = _layers(decoder)
            for layer, given in zip(layers, flat.chunk(len(layers), 1), strict=True):
                stack.enter_context(_heads_changed(layer, partial(_instead, given)))
        else:
            stack.enter_context(_weights_given(decoder, by_place[..., 0, :]))
        reading: Reading = decoder(features, inputs, is_word)
        return reading


def shown_maps(decoder: Decoder, looks: Tensor) -> Tensor:
    """Looks (n, L, R) -> the map (n, R) that is shown of each word: of a transformer, its last layer's mean head."""
    last = len(_layers(decoder)) if isinstance(decoder, TransformerDecoder) else 1
    return looks[:, -(looks.shape[1] // last) :].mean(1)


def on_the_simplex(weights: Tensor) -> Tensor:
    """Weights (..., R) divided by their sum; even where it is 0."""
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, weights / total.clamp(min=torch.finfo(weights.dtype).tiny), 1 / weights.shape[-1])


class _GivenWeights(nn.Module):
    """Stands for a normalizer: at step t the look `given` (B, M, T, R) of that step, scaled to what the regions had."""

    def __init__(self, own: nn.Module, given: Tensor) -> None:
        super().__init__()
        self.own, self.given, self.step = own, given, 0
        self.latest = given.new_zeros(0)

    def forward(self, scores: Tensor, mask: Tensor | None = None, log_factor: Tensor | None = None) -> Tensor:
        own: Tensor = self.own(scores, mask, log_factor)
        regions, beside = own.split([self.given.shape[-1], own.shape[-1] - self.given.shape[-1]], -1)
        look = self.given[: len(own), :, self.step].to(own.dtype)
        self.step += 1
        self.latest = torch.cat([look * regions.sum(-1, keepdim=True), beside], -1)
        return self.latest

    def log_weights(self, scores: Tensor, mask: Tensor | None = None, log_factor: Tensor | None = None) -> Tensor:
        """Of the same step: it is asked for after the weights."""
        return safe_log(self.latest)


class _ChangedHeads(nn.Module):
    """Stands for a layer's cross-attention, with other weights in the place of its own."""

    def __init__(self, own: MultiHeadAttention, change: Change) -> None:
        super().__init__()
        self.own, self.change = own, change

    def remember(self, keys: Tensor, values: Tensor | None = None, mask: Tensor | None = None) -> HeadMemory:
        return self.own.remember(keys, values, mask)

    def attend(
        self, queries: Tensor, memory: HeadMemory, mask: Tensor | None = None, *, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        _, own = self.own.attend(queries, memory, mask, need_weights=True)
        weights = self.change(cast(Tensor, own))
        context = weights.to(memory.values.dtype) @ memory.values
        return linear(self.own.output_map, context.transpose(-3, -2).flatten(-2)), weights


@contextmanager
def _heads_changed(layer: Layer, change: Change) -> Iterator[None]:
    own = layer.cross_attention
    layer.cross_attention = cast(MultiHeadAttention, _ChangedHeads(own, change))
    try:
        yield
    finally:
        layer.cross_attention = own


@contextmanager
def _weights_given(decoder: Decoder, given: Tensor) -> Iterator[None]:
    attention = getattr(decoder, "attention", None)
    if not isinstance(attention, Attention):
        raise ConfigError(
            f"maps: expected a decoder with attention, got {type(decoder).__name__} with "
            f"{type(attention).__name__}, which shows the same mean at every word; there is no map to replace"
        )
    own = attention.normalizer
    attention.normalizer = cast(Normalizer, _GivenWeights(own, given))
    try:
        yield
    finally:
        attention.normalizer = own


def _instead(given: Tensor, own: Tensor) -> Tensor:
    return given.to(own.dtype)


def _layers(decoder: TransformerDecoder) -> list[Layer]:
    return [cast(Layer, layer) for layer in decoder.layers]
