"""Top-down attention (Anderson et al., 2018): one LSTM that decides where to look, another that speaks.

    h¹_t = LSTM₁([h²_{t-1}; v̄; E y_{t-1}], h¹_{t-1})      v̄ = the mean region
    α_t  = attention weights of h¹_t over the regions;      v̂_t = Σ_i α_ti v_i
    h²_t = LSTM₂([v̂_t; h¹_t], h²_{t-1})
    p(y_t) from h²_t  (the paper's is the linear output)

Both LSTMs start from zero, as in the authors' code: the first step sees the mean region already.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from captioning.decoders.decoder import Dropouts
from captioning.decoders.output import DeepOutput, LinearOutput
from captioning.decoders.recurrent import (
    Attends,
    Glimpse,
    ImageMemory,
    RecurrentDecoder,
    initialize_recurrence,
)
from captioning.decoders.state import State, lstm_cell
from captioning.features.image_features import ImageFeatures
from captioning.tensors.precision import linear


@dataclass(frozen=True, eq=False)
class TopDownState(State):
    """Of the two LSTMs, and where they looked last."""

    attention_hidden: Tensor
    """(B, K, H) h¹."""
    attention_cell: Tensor
    """(B, K, H), at least float32."""
    hidden: Tensor
    """(B, K, H) h²."""
    cell: Tensor
    """(B, K, H), at least float32."""
    looked: Tensor | None = None
    """(B, K, R) the weights of the last word, where the attention's locality asks for them."""


class TopDown(RecurrentDecoder):
    """The decoder. `attention` has the state's width as query width and the regions' as key width."""

    def __init__(
        self,
        *,
        attention: Attends,
        embedding: nn.Embedding,
        output: DeepOutput | LinearOutput,
        state_width: int,
        region_width: int,
        dropouts: Dropouts = Dropouts(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(attention=attention, embedding=embedding, output=output, dropouts=dropouts)
        self.state_width = state_width
        self.word_gates = nn.Linear(embedding.embedding_dim, 4 * state_width)
        self.mean_gates = nn.Linear(region_width, 4 * state_width, bias=False)
        # Both states at once: [h¹_{t-1}; h²_{t-1}] for the first LSTM, [h¹_t; h²_{t-1}] for the second.
        self.attention_gates = nn.Linear(2 * state_width, 4 * state_width, bias=False)
        self.state_gates = nn.Linear(2 * state_width, 4 * state_width)
        self.context_gates = nn.Linear(region_width, 4 * state_width, bias=False)
        initialize_recurrence(embedding, self.attention_gates, self.state_gates)

    def remember(self, features: ImageFeatures) -> ImageMemory:
        """Projected keys, values, the mean region's part of the first LSTM's gates, and states of zeros."""
        regions, mean = self.regions_and_mean(features)
        shape = (len(regions), 1, self.state_width)
        hidden, cell = regions.new_zeros(shape), mean.new_zeros(shape)
        return ImageMemory(
            self.attend_to(features, regions),
            TopDownState(hidden, cell, hidden, cell),
            self.shared_weights("attention_gates", "state_gates", "context_gates"),
            linear(self.mean_gates, mean.to(regions.dtype)),
            self.toss(regions),
        )

    def step(self, memory: ImageMemory, state: State, word_gates: Tensor) -> Glimpse:
        """Decide where to look, look, and go on by one word."""
        before = cast(TopDownState, state)
        weights, mean_gates = memory.weights, cast(Tensor, memory.constant)[: len(word_gates)]
        states = torch.cat([before.attention_hidden, before.hidden], -1)
        gates = word_gates + mean_gates + weights["attention_gates"](states)
        attention_hidden, attention_cell = lstm_cell(gates, before.attention_cell)
        attention_hidden = attention_hidden.to(word_gates.dtype)
        seen = self.look(attention_hidden, memory, before.looked)
        states = torch.cat([attention_hidden, before.hidden], -1)
        bias = self.state_gates.bias.to(word_gates.dtype)
        gates = weights["state_gates"](states) + weights["context_gates"](self.context_dropout(seen.context)) + bias
        hidden, cell = lstm_cell(gates, before.cell)
        hidden = hidden.to(word_gates.dtype)
        after = TopDownState(attention_hidden, attention_cell, hidden, cell, self.followed(seen.weights))
        return Glimpse(after, hidden, seen.context, seen.weights, self.choice(seen, attention_hidden))
