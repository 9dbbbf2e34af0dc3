"""What every decoder offers: reading given captions, and one step of decoding."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from captioning.attention.selection import Soft
from captioning.decoders.output import DeepOutput, LinearOutput
from captioning.decoders.reading import Reading
from captioning.decoders.scheduled_sampling import ScheduledSampling
from captioning.features.image_features import ImageFeatures
from captioning.tensors.precision import compute_dtype

HEADS = "heads"
"""The detail (..., Hn, R) that a decoder with several heads reports."""


class Memory(Protocol):
    """What a decoder keeps of B images for all their captions and steps."""

    def select(self, images: Tensor) -> Self:
        """Of these images only."""


class Advance(NamedTuple):
    """What one step of decoding gives."""

    state: Any
    """The state after the word that was read."""
    log_probabilities: Tensor
    """(B, K, V) of the next word."""
    weights: Tensor
    """(B, K, R) where the decoder looked for it."""
    details: Mapping[str, Tensor] = {}
    """(B, K, ...) what else it reports, by name."""


@dataclass(frozen=True)
class Dropouts:
    """Probabilities of dropout in training; never on the recurrent state itself."""

    word: float = 0.0
    """Of whole words among those that are read."""
    embedding: float = 0.0
    """Of single components of the word vectors that are read."""
    region: float = 0.0
    """Of single components of the region vectors, the same for all steps."""
    context: float = 0.0
    """Of single components of a context on its way into the LSTM, others at each step. The output sees all of it: so a
    look at the word's own object tells more than the memory of an earlier one."""


class Decoder(nn.Module):
    """The base of all decoders; a captioner and its training know no more of one than this.

    `output` is a DeepOutput or LinearOutput; `dropouts` act in training.
    """

    def __init__(self, *, embedding: nn.Embedding, output: DeepOutput | LinearOutput, dropouts: Dropouts) -> None:
        super().__init__()
        self.embedding, self.output = embedding, output
        self.word_dropout, self.embedding_dropout = nn.Dropout(dropouts.word), nn.Dropout(dropouts.embedding)
        self.region_dropout, self.context_dropout = nn.Dropout(dropouts.region), nn.Dropout(dropouts.context)

    def forward(
        self,
        features: ImageFeatures,
        inputs: Tensor,
        is_word: Tensor,
        sampling: ScheduledSampling | None = None,
    ) -> Reading:
        """Read given captions. inputs (B, M, T): START and the true words; is_word (B, M, T): where a target stands.

        With `sampling` the decoder now and then reads a word of its own instead of the true one.
        """
        raise NotImplementedError

    def start(self, features: ImageFeatures) -> tuple[Any, Any]:
        """A `Memory` of B images, and the `State` before the first word of a search, one hypothesis an image."""
        raise NotImplementedError

    def advance(self, memory: Any, state: Any, words: Tensor) -> Advance:
        """One step of decoding: words (B, K) that were just chosen, read by the hypotheses in `state`."""
        raise NotImplementedError

    def embed(self, words: Tensor, dtype: torch.dtype) -> Tensor:
        """Word ids (...) -> vectors (..., E) of this type; in training with dropout of components and whole words."""
        vectors: Tensor = self.embedding_dropout(self.embedding(words).to(dtype))
        if not self.training or self.word_dropout.p == 0:
            return vectors
        return vectors * self.word_dropout(vectors.new_ones(*words.shape, 1))

    def regions(self, features: ImageFeatures) -> Tensor:
        """Regions (B, R, D) in the compute type; those that do not exist are zero, whatever they hold."""
        regions = features.regions.to(compute_dtype(self.embedding.weight))
        if features.mask is not None:
            regions = regions.masked_fill(~features.mask.unsqueeze(-1), 0)
        dropped: Tensor = self.region_dropout(regions)
        return dropped


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Inside, no dropout of the model acts; whatever else training mode does stays."""
    parts = [part for part in model.modules() if isinstance(part, nn.Dropout | Soft) and part.training]
    for part in parts:
        part.eval()
    try:
        yield
    finally:
        for part in parts:
            part.train()
