"""What every decoder offers: reading given captions, and one step of decoding."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self

from torch import Tensor, nn

from captioning.decoders.reading import Reading
from captioning.decoders.scheduled_sampling import ScheduledSampling
from captioning.features.image_features import ImageFeatures

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


class Decoder(nn.Module):
    """The base of all decoders; a captioner and its training know no more of one than this."""

    embedding: nn.Embedding

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


def drop_rows(dropout: nn.Dropout, vectors: Tensor) -> Tensor:
    """Dropout of whole vectors (..., width) instead of single components."""
    if not dropout.training or dropout.p == 0:
        return vectors
    return vectors * dropout(vectors.new_ones(*vectors.shape[:-1], 1))
