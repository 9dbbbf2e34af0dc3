"""A transformer decoder (Vaswani et al., 2017): causal self-attention over the words, cross-attention to the grid.

    x_t = W_e E y_{t-1} + position t,      m_i = norm(W_a a_i + position of cell i)
    x  ← x + SelfAttention(norm(x)),   x ← x + CrossAttention(norm(x), m),   x ← x + FeedForward(norm(x))   per layer
    p(y_t) from norm(x_t)

The norm stands before each part (Xiong et al., 2020), so that no warm-up is needed to train. A word's map is the mean
of the last layer's heads; `heads` has each of them. Step by step, each layer keeps the keys and values of the words so
far, and the result is that of the whole sequence at once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from captioning.attention.attention import named
from captioning.attention.masks import causal_mask
from captioning.attention.multihead import HeadMemory, MultiHeadAttention
from captioning.attention.positions import GRID_POSITIONS, POSITIONS, RelativePositions
from captioning.decoders.decoder import HEADS, Advance, Decoder, Dropouts
from captioning.decoders.output import DeepOutput, LinearOutput
from captioning.decoders.reading import Reading
from captioning.decoders.scheduled_sampling import ScheduledSampling
from captioning.errors import ConfigError
from captioning.features.image_features import ImageFeatures
from captioning.tensors.packing import PackedWords
from captioning.tensors.precision import compute_dtype, linear

LONGEST = 128
"""Words of a caption, and rows or columns of a grid, that learned positions have vectors for."""
REACH = 16
"""Words away, up to which relative positions tell distances apart."""
WIDENING = 4
"""The inner width of the feed-forward part, in widths of the layer."""


class ImageMemory(NamedTuple):
    """The grid's keys and values for the cross-attention of each layer."""

    layers: tuple[HeadMemory, ...]

    def select(self, images: Tensor) -> "ImageMemory":
        """Of these images only."""
        return ImageMemory(tuple(layer.select(images) for layer in self.layers))


@dataclass(frozen=True)
class WordCache:
    """The keys and values of the words that K hypotheses of B images have read, for each layer; at first nothing."""

    layers: tuple[HeadMemory, ...] = ()
    length: int = 0

    def select(self, images: Tensor) -> "WordCache":
        """Of these images only."""
        return replace(self, layers=tuple(layer.select(images) for layer in self.layers))

    def reorder(self, parents: Tensor) -> "WordCache":
        """Row k of image b becomes the old row parents[b, k]."""
        return replace(self, layers=tuple(layer.reorder(parents) for layer in self.layers))


class Layer(nn.Module):
    """Self-attention, cross-attention and feed-forward, each added to what comes in."""

    def __init__(self, width: int, heads: int, *, dropout: float, relative: bool) -> None:
        super().__init__()
        distances = RelativePositions(width // heads, reach=REACH) if relative else None
        self.self_attention = MultiHeadAttention(query_width=width, heads=heads, relative=distances)
        self.cross_attention = MultiHeadAttention(query_width=width, heads=heads)
        self.widen, self.narrow = nn.Linear(width, WIDENING * width), nn.Linear(WIDENING * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def read_words(self, words: Tensor, mask: Tensor, dtype: torch.dtype) -> Tensor:
        """(B, M, T, H) under a causal mask (T, T)."""
        attended, _ = self.self_attention(self.norms[0](words).to(dtype), mask=mask, need_weights=False)
        return self._add(words, attended)

    def read_word(self, word: Tensor, cache: HeadMemory | None, dtype: torch.dtype) -> tuple[Tensor, HeadMemory]:
        """(B, K, 1, H), one word more than the cache holds."""
        attended, _, cache = self.self_attention.extend(self.norms[0](word).to(dtype), cache)
        return self._add(word, attended), cache

    def look(self, words: Tensor, memory: HeadMemory, *, need_weights: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """(B', N, H) words -> the same after both other parts, what cross-attention gave, and its (B', Hn, N, R)."""
        dtype = memory.keys.dtype
        queries = self.norms[1](words).to(dtype)
        context, weights = self.cross_attention.attend(queries, memory, need_weights=need_weights)
        words = self._add(words, context)
        inner = linear(self.widen, self.norms[2](words).to(dtype)).relu()
        return self._add(words, linear(self.narrow, inner)), context, weights

    def _add(self, words: Tensor, part: Tensor) -> Tensor:
        """The running sum stays in the parameters' own type."""
        total: Tensor = words + self.dropout(part).to(words.dtype)
        return total


class TransformerDecoder(Decoder):
    """The decoder; `state_width` is H, the width of its layers, and `output` has it as state and as region width."""

    def __init__(
        self,
        *,
        embedding: nn.Embedding,
        output: DeepOutput | LinearOutput,
        state_width: int,
        region_width: int,
        layers: int = 2,
        heads: int = 8,
        positions: str = "sinusoidal",
        grid_positions: str = "sinusoidal",
        dropout: float = 0.1,
        dropouts: Dropouts = Dropouts(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(embedding=embedding, output=output, dropouts=dropouts)
        if layers < 1:
            raise ConfigError(f"transformer layers: expected at least 1, got {layers}")
        relative = positions == "relative"
        absolute = named("positions", "none" if relative else positions, POSITIONS)
        self.positions = absolute(state_width, longest=LONGEST)
        self.grid_positions = named("grid_positions", grid_positions, GRID_POSITIONS)(state_width, longest=LONGEST)
        self.word_map, self.region_map = (
            nn.Linear(width, state_width) for width in (embedding.embedding_dim, region_width)
        )
        self.region_norm, self.norm = nn.LayerNorm(state_width), nn.LayerNorm(state_width)
        self.layers = nn.ModuleList(
            Layer(state_width, heads, dropout=dropout, relative=relative) for _ in range(layers)
        )
        # Word vectors of components of variance 1, as large as the positions that are added to them.
        nn.init.normal_(embedding.weight)

    def remember(self, features: ImageFeatures) -> ImageMemory:
        """Everything that is done once an image."""
        regions = linear(self.region_map, self.regions(features))
        placed = self.grid_positions(regions, features.rows, features.columns)
        cells = self.region_norm(placed.to(self.norm.weight.dtype)).to(regions.dtype)
        return ImageMemory(tuple(layer.cross_attention.remember(cells, mask=features.mask) for layer in self._stack()))

    def forward(
        self,
        features: ImageFeatures,
        inputs: Tensor,
        is_word: Tensor,
        sampling: ScheduledSampling | None = None,
    ) -> Reading:
        """As for all decoders, all words at once. Raises ConfigError for scheduled sampling, which needs steps."""
        if sampling is not None:
            raise ConfigError("scheduled_sampling: expected 0 with the transformer, which reads all words at once")
        words = PackedWords.of(is_word)
        memory, dtype = self.remember(features), compute_dtype(self.embedding.weight)
        mask = causal_mask(inputs.shape[-1], device=inputs.device)
        with torch.autocast(inputs.device.type, enabled=False):
            embedded = self.embed(inputs, dtype)
            seen = self._look(
                self._placed(embedded), memory, lambda layer, hidden: layer.read_words(hidden, mask, dtype)
            )
            shown, context, heads = (words.pack(part.unflatten(1, inputs.shape[1:])) for part in seen)
            return Reading(self.output(words.pack(embedded), shown, context), heads.mean(1), words, {HEADS: heads})

    def start(self, features: ImageFeatures) -> tuple[ImageMemory, WordCache]:
        """As for all decoders."""
        return self.remember(features), WordCache()

    def advance(self, memory: ImageMemory, state: WordCache, words: Tensor) -> Advance:
        """As for all decoders."""
        dtype = compute_dtype(self.embedding.weight)
        before: Iterator[HeadMemory | None] = iter(state.layers or [None] * len(self.layers))
        after = []

        def read(layer: Layer, hidden: Tensor) -> Tensor:
            hidden, cache = layer.read_word(hidden, next(before), dtype)
            after.append(cache)
            return hidden

        embedded = self.embed(words, dtype)
        shown, context, heads = self._look(self._placed(embedded.unsqueeze(2), state.length), memory, read)
        log_probabilities = self.output(embedded, shown, context).float().log_softmax(-1)
        return Advance(WordCache(tuple(after), state.length + 1), log_probabilities, heads.mean(2), {HEADS: heads})

    def _stack(self) -> list[Layer]:
        return [cast(Layer, layer) for layer in self.layers]

    def _placed(self, embedded: Tensor, start: int = 0) -> Tensor:
        """(B, M, T, E) word vectors -> (B, M, T, H) with their positions, in the parameters' own type."""
        placed: Tensor = self.positions(linear(self.word_map, embedded).to(self.norm.weight.dtype), start)
        return placed

    def _look(
        self, hidden: Tensor, memory: ImageMemory, read: Callable[[Layer, Tensor], Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(B, M, T, H) through all layers, of which `read` does the self-attention.

        Returns, captions × positions flattened, what the output layer sees (B, N, H), what the last cross-attention
        gave (B, N, H) and the weights of its heads (B, N, Hn, R).
        """
        for layer, cells in zip(self._stack(), memory.layers, strict=True):
            hidden = read(layer, hidden)
            is_last = layer is self.layers[-1]
            flat, context, heads = layer.look(hidden.flatten(1, 2), cells, need_weights=is_last)
            hidden = flat.unflatten(1, hidden.shape[1:3])
        return self.norm(flat).to(context.dtype), context, cast(Tensor, heads).transpose(1, 2)
