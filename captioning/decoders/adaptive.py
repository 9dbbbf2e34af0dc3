"""Adaptive attention (Lu et al., 2017): beside the regions stands a sentinel, what the decoder knows without looking.

    h_t, m_t = LSTM([E y_{t-1}; v̄], h_{t-1})                v̄ = the mean region
    s_t      = σ(W_x [E y_{t-1}; v̄] + W_h h_{t-1}) ⊙ tanh(m_t)
    α̂_t      = weights of h_t over the regions and, as one more key, the sentinel
    ĉ_t      = Σ_i α̂_ti v_i + β_t s_t                        β_t = the sentinel's weight
    p(y_t) from ĉ_t + h_t

A region enters as v_i = relu(W_a a_i), of the state's width. The map of a word sums to 1 − β_t; β_t is reported beside
it as `sentinel`. The state never sees what was attended, so that every word must look for itself.
"""

from typing import cast

from torch import Tensor, nn

from captioning.attention import Attended, Attention, Memory
from captioning.attention.scored import ValuesWithOwn
from captioning.decoders.decoder import Dropouts
from captioning.decoders.output import DeepOutput, LinearOutput
from captioning.decoders.recurrent import (
    Glimpse,
    ImageMemory,
    InitialState,
    RecurrentDecoder,
    initialize_recurrence,
)
from captioning.decoders.state import LSTMState, State, lstm_cell
from captioning.features.image_features import ImageFeatures
from captioning.tensors.precision import linear

SENTINEL = "sentinel"
"""The detail that this decoder reports of a word: β, the weight of what it knows without looking."""


class Adaptive(RecurrentDecoder):
    """The decoder. `attention` has the state's width as query and as key width, and so has `output` as region width."""

    attention: Attention
    own_values = 1

    def __init__(
        self,
        *,
        attention: Attention,
        embedding: nn.Embedding,
        output: DeepOutput | LinearOutput,
        state_width: int,
        region_width: int,
        initial_state: str = "linear",
        dropouts: Dropouts = Dropouts(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(attention=attention, embedding=embedding, output=output, dropouts=dropouts)
        self.state_width = state_width
        self.initial_state = InitialState(initial_state, region_width, state_width)
        self.region_map = nn.Linear(region_width, state_width)
        # Four gates of the LSTM, and as a fifth part the sentinel's.
        self.word_gates = nn.Linear(embedding.embedding_dim, 5 * state_width)
        self.mean_gates = nn.Linear(region_width, 5 * state_width, bias=False)
        self.state_gates = nn.Linear(state_width, 5 * state_width, bias=False)
        self.sentinel_key = nn.Linear(state_width, attention.score.width, bias=False)
        initialize_recurrence(embedding, self.state_gates)

    def remember(self, features: ImageFeatures) -> ImageMemory:
        """Regions of the state's width as keys and values, the mean region's part of the gates, the initial state."""
        regions, mean = self.regions_and_mean(features)
        return ImageMemory(
            self.attend_to(features, linear(self.region_map, regions).relu()),
            self.initial_state(mean, regions.dtype),
            self.shared_weights("state_gates", "sentinel_key"),
            linear(self.mean_gates, mean.to(regions.dtype)),
            self.toss(regions),
        )

    def step(self, memory: ImageMemory, state: State, word_gates: Tensor) -> Glimpse:
        """Go on by one word, form the sentinel, and look at the regions and at it."""
        before = cast(LSTMState, state)
        gates = word_gates + cast(Tensor, memory.constant)[: len(word_gates)]
        gates = gates + memory.weights["state_gates"](before.hidden)
        of_lstm, of_sentinel = gates.split([4 * self.state_width, self.state_width], -1)
        hidden, cell = lstm_cell(of_lstm, before.cell)
        sentinel = (of_sentinel.to(cell.dtype).sigmoid() * cell.tanh()).to(word_gates.dtype)
        hidden = hidden.to(word_gates.dtype)
        seen = self._look(memory, hidden, sentinel, before.looked)
        map_of_regions = seen.weights[..., :-1]
        after = LSTMState(hidden, cell, self.followed(map_of_regions))
        details = {SENTINEL: seen.weights[..., -1], **self.choice(seen, hidden)}
        return Glimpse(after, hidden + seen.context, seen.context, map_of_regions, details)

    def _look(self, memory: ImageMemory, hidden: Tensor, sentinel: Tensor, looked: Tensor | None) -> Attended:
        """Context (B', M, H) and weights (B', M, R + 1), the sentinel's last."""
        attended = cast(Memory, memory.attended)
        scored = self.attention.scores(hidden, attended, looked)
        own = self.attention.score.compare_own(
            attended.score.project_query(hidden), memory.weights["sentinel_key"](sentinel)
        )
        values = ValuesWithOwn(attended.values, sentinel)
        return self.attention.select(scored.with_own(own), values, coins=self.coins_of(memory, hidden))
