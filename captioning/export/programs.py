"""A captioner as two functions of tensors: everything that is done once an image, and one step of decoding.

    encoder:  pixels (B, 3, S, S) -> regions (B, R, D), state...
    step:     regions, words (B,), state... -> log_probabilities (B, V), weights (B, R), state...

The state is a list of tensors whose first axis is B; of a transformer it grows by a word with each step. The step
projects the regions itself, so that it needs nothing of the encoder but them.
"""

from dataclasses import fields
from typing import Any, cast

import torch
from torch import Tensor, nn

from captioning.attention.multihead import HeadMemory
from captioning.captioner import Captioner
from captioning.decoders.decoder import Decoder
from captioning.decoders.recurrent import RecurrentDecoder
from captioning.decoders.state import State
from captioning.decoders.transformer import TransformerDecoder, WordCache
from captioning.errors import ConfigError
from captioning.features.image_features import ImageFeatures

LOOKED = "looked"
GROWS = "keys", "values"


class StateTensors:
    """A decoder's state as a list of named tensors, and back."""

    names: list[str]
    """Of the tensors, in order."""
    growing_axis: int | None = None
    """The axis that a step makes longer, None: none."""

    def take_apart(self, state: Any, features: ImageFeatures) -> list[Tensor]:
        """The tensors (B, 1, ...)."""
        raise NotImplementedError

    def put_together(self, tensors: list[Tensor]) -> Any:
        """The inverse."""
        raise NotImplementedError


class RecurrentState(StateTensors):
    """Of an LSTM or two; where the attention follows its last weights, these too, zeros before the first word."""

    def __init__(self, decoder: RecurrentDecoder, example: State) -> None:
        self.kind, self.follows = type(example), bool(decoder.attention.needs_previous)
        self.names = [each.name for each in fields(example) if each.name != LOOKED or self.follows]

    def take_apart(self, state: State, features: ImageFeatures) -> list[Tensor]:
        nowhere = features.regions.new_zeros(features.regions.shape[0], 1, features.regions.shape[1])
        found = {LOOKED: nowhere, **{name: value for name, value in vars(state).items() if value is not None}}
        return [found[name] for name in self.names]

    def put_together(self, tensors: list[Tensor]) -> State:
        return self.kind(**dict(zip(self.names, tensors, strict=True)))


class CacheState(StateTensors):
    """Of a transformer: keys and values (B, 1, Hn, words so far, W) of each layer."""

    growing_axis = 3

    def __init__(self, decoder: TransformerDecoder) -> None:
        self.names = [f"{part}_{layer}" for layer in range(len(decoder.layers)) for part in GROWS]
        attention = cast(Any, decoder.layers[0]).self_attention
        self.heads, self.width = attention.heads, attention.query_map.out_features // attention.heads

    def take_apart(self, state: WordCache, features: ImageFeatures) -> list[Tensor]:
        if not state.layers:
            empty = features.regions.new_zeros(features.regions.shape[0], 1, self.heads, 0, self.width)
            return [empty for _ in self.names]
        return [tensor for layer in state.layers for tensor in (layer.keys, layer.values)]

    def put_together(self, tensors: list[Tensor]) -> WordCache:
        layers = tuple(HeadMemory(*pair) for pair in zip(tensors[::2], tensors[1::2], strict=True))
        return WordCache(layers, tensors[0].shape[3])


class EncoderProgram(nn.Module):
    """What is done once an image."""

    def __init__(self, captioner: Captioner, state: StateTensors) -> None:
        super().__init__()
        self.encoder, self.decoder, self.state = captioner.encoder, captioner.decoder, state

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """As above."""
        features = self.encoder(pixels)
        _, state = self.decoder.start(features)
        return (features.regions, *self.state.take_apart(state, features))


class StepProgram(nn.Module):
    """One step of decoding."""

    def __init__(self, captioner: Captioner, state: StateTensors, grid: tuple[int, int]) -> None:
        super().__init__()
        self.decoder, self.state, self.grid = captioner.decoder, state, grid

    def forward(self, regions: Tensor, words: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        """As above."""
        features = ImageFeatures(regions, *self.grid)
        memory, _ = self.decoder.start(features)
        said = self.decoder.advance(memory, self.state.put_together(list(tensors)), words.unsqueeze(1))
        rest = self.state.take_apart(said.state, features)
        return (said.log_probabilities.squeeze(1), said.weights.squeeze(1), *rest)


def make_programs(captioner: Captioner) -> tuple[EncoderProgram, StepProgram]:
    """Both functions of a captioner in evaluation mode, under its own test-time rule.

    Raises ConfigError for a rule that draws at random.
    """
    rule = captioner.default_search.test_time_rule
    if rule not in ("expected", "argmax"):
        raise ConfigError(
            f"export: expected test_time_rule expected or argmax, got {rule}: a graph draws nothing at random"
        )
    size = captioner.encoder.preprocessing.size
    with torch.no_grad():
        features = captioner.encoder(torch.zeros(1, 3, size, size, device=captioner.device))
        _, state = captioner.decoder.start(features)
    tensors = _state_tensors(captioner.decoder, state)
    return EncoderProgram(captioner, tensors), StepProgram(captioner, tensors, (features.rows, features.columns))


def _state_tensors(decoder: Decoder, example: Any) -> StateTensors:
    if isinstance(decoder, TransformerDecoder):
        return CacheState(decoder)
    return RecurrentState(cast(RecurrentDecoder, decoder), example)
