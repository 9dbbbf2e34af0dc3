"""Show, Attend and Tell (Xu et al., 2015): an LSTM that looks at the image's regions before each word.

    c₀, h₀ = f_c(mean region), f_h(mean region)
    α_t    = attention weights of h_{t-1} over the regions;   ẑ_t = Σ_i α_ti a_i
    β_t    = σ(f_β(h_{t-1}))                                   (a scalar in the paper)
    h_t    = LSTM([E y_{t-1}; β_t ẑ_t], h_{t-1})
    p(y_t) ∝ exp(L_o f(E y_{t-1} + L_h h_t + L_z β_t ẑ_t))

With a `MeanRegion` in place of the attention it is the control `mean_pool`.
"""

from typing import cast

from torch import Tensor, nn

from captioning.decoders.decoder import Dropouts
from captioning.decoders.output import DeepOutput, LinearOutput
from captioning.decoders.recurrent import (
    Attends,
    Glimpse,
    ImageMemory,
    InitialState,
    RecurrentDecoder,
    initialize_recurrence,
)
from captioning.decoders.state import LSTMState, State, lstm_cell
from captioning.errors import ConfigError
from captioning.features.image_features import ImageFeatures

GATES = ("scalar", "vector", "none")
GATE = "gate"
"""The detail, not in training, that this decoder reports of a word: β, of a vector gate the mean of its components."""


class ShowAttendTell(RecurrentDecoder):
    """The decoder. `attention` has the state's width as query width and the regions' as key width.

    Without `feed_context` the LSTM reads words alone and the context goes to the output only: no object that was seen
    once can be remembered, so every word must look for itself (Wu, Shapiro and Cotterell, 2018, need that for exact
    likelihoods). The output must then be deep.
    """

    def __init__(
        self,
        *,
        attention: Attends,
        embedding: nn.Embedding,
        output: DeepOutput | LinearOutput,
        state_width: int,
        region_width: int,
        gate: str = "scalar",
        initial_state: str = "linear",
        feed_context: bool = True,
        dropouts: Dropouts = Dropouts(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(attention=attention, embedding=embedding, output=output, dropouts=dropouts)
        self.initial_state = InitialState(initial_state, region_width, state_width)
        self.word_gates = nn.Linear(embedding.embedding_dim, 4 * state_width)
        self.state_gates = nn.Linear(state_width, 4 * state_width, bias=False)
        self.context_gates = nn.Linear(region_width, 4 * state_width, bias=False) if feed_context else None
        self.context_gate = _context_gate(gate, state_width, region_width)
        initialize_recurrence(embedding, self.state_gates)

    def remember(self, features: ImageFeatures) -> ImageMemory:
        """Projected keys, values and the initial state."""
        regions, mean = self.regions_and_mean(features)
        layers = [
            "state_gates",
            *(name for name in ("context_gates", "context_gate") if getattr(self, name) is not None),
        ]
        return ImageMemory(
            self.attend_to(features, regions),
            self.initial_state(mean, regions.dtype),
            self.shared_weights(*layers),
            coins=self.toss(regions),
        )

    def step(self, memory: ImageMemory, state: State, word_gates: Tensor) -> Glimpse:
        """Look, gate what was seen, and go on by one word."""
        before = cast(LSTMState, state)
        seen = self.look(before.hidden, memory, before.looked)
        gate = self.gate(memory, before.hidden)
        context, details = self.gated(seen.context, gate), self.choice(seen, before.hidden)
        if gate is not None and not self.training:
            details[GATE] = gate.mean(-1)
        gates = word_gates + memory.weights["state_gates"](before.hidden)
        if self.context_gates is not None:
            gates = gates + memory.weights["context_gates"](self.context_dropout(context))
        hidden, cell = lstm_cell(gates, before.cell)
        hidden = hidden.to(before.hidden.dtype)
        after = LSTMState(hidden, cell, self.followed(seen.weights))
        return Glimpse(after, hidden, context, seen.weights, details)

    def gate(self, memory: ImageMemory, hidden: Tensor) -> Tensor | None:
        """β_t of states (B', M, H); None where there is no gate."""
        if self.context_gate is None:
            return None
        logits = memory.weights["context_gate"](hidden)
        return (logits + self.context_gate.bias.to(logits.dtype)).sigmoid()

    def gated(self, context: Tensor, gate: Tensor | None) -> Tensor:
        """β_t ẑ_t, what LSTM and output see of the context."""
        return context if gate is None else gate * context


def _context_gate(kind: str, state_width: int, region_width: int) -> nn.Linear | None:
    if kind not in GATES:
        raise ConfigError(f"gate: expected one of {', '.join(GATES)}, got {kind!r}")
    return None if kind == "none" else nn.Linear(state_width, 1 if kind == "scalar" else region_width)
