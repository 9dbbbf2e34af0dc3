"""A decoder as the `Step` that searches ask for."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from captioning.decoders.decoder import Decoder, Memory
from captioning.decoding.step import StepOutput
from captioning.features.image_features import ImageFeatures


class StepState(NamedTuple):
    """What a search hands back and forth: the images' memory and the hypotheses' state."""

    memory: Memory
    state: Any


@dataclass(frozen=True)
class DecoderStep:
    """A decoder and the features of B images as the `Step` that searches ask for."""

    decoder: Decoder
    features: ImageFeatures = field(repr=False)

    def start(self) -> StepState:
        """One hypothesis an image."""
        return StepState(*self.decoder.start(self.features))

    def advance(self, state: StepState, words: Tensor) -> StepOutput[StepState]:
        """Words (B, K) -> log-probabilities (B, K, V), weights (B, K, R)."""
        said = self.decoder.advance(state.memory, state.state, words)
        return StepOutput(StepState(state.memory, said.state), *said[1:])

    def reorder(self, state: StepState, parents: Tensor) -> StepState:
        """Row k of image b becomes the old row parents[b, k]; the memory stays."""
        return StepState(state.memory, state.state.reorder(parents))

    def select(self, state: StepState, images: Tensor) -> StepState:
        """These images only."""
        return StepState(state.memory.select(images), state.state.select(images))
