"""Show, Attend and Tell (Xu et al., 2015): an LSTM that looks at the image's regions before each word.

    c₀, h₀ = f_c(mean region), f_h(mean region)
    α_t    = attention weights of h_{t-1} over the regions;   ẑ_t = Σ_i α_ti a_i
    β_t    = σ(f_β(h_{t-1}))                                   (a scalar in the paper)
    h_t    = LSTM([E y_{t-1}; β_t ẑ_t], h_{t-1})
    p(y_t) ∝ exp(L_o f(E y_{t-1} + L_h h_t + L_z β_t ẑ_t))

Whatever is the same for all captions of an image (projected keys, initial state) is computed once an image; whatever
is the same for all steps (word gates, deep output, vocabulary layer, weight gradients) is one product.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from captioning.attention import Attention, Memory
from captioning.decoders.output import DeepOutput, LinearOutput
from captioning.decoders.recurrent import Reading, State, lstm_cell
from captioning.decoders.scheduled_sampling import ScheduledSampling
from captioning.errors import ConfigError
from captioning.features.image_features import ImageFeatures
from captioning.tensors.masking import masked_mean
from captioning.tensors.packing import PackedWords
from captioning.tensors.precision import compute_dtype, linear
from captioning.tensors.recurrence import SharedWeight

GATES = ("scalar", "vector", "none")
INITIAL_STATES = ("linear", "tanh", "mlp")


class ImageMemory(NamedTuple):
    """What the decoder keeps of B images for all their captions and steps."""

    attended: Memory
    initial: State
    """(B, 1, H)."""
    from_state: SharedWeight
    """h_{t-1} -> its part of the LSTM's gates."""
    from_context: SharedWeight
    """β ẑ_t -> its part of the LSTM's gates."""
    to_gate: SharedWeight | None
    """h_{t-1} -> the logits of β, without bias."""

    def select(self, images: Tensor) -> "ImageMemory":
        """These images only; for decoding."""
        return self._replace(attended=self.attended.select(images), initial=self.initial.select(images))


class ShowAttendTell(nn.Module):
    """The decoder. `attention` has the state's width as query width; `output` is a DeepOutput or LinearOutput."""

    def __init__(
        self,
        *,
        attention: Attention,
        embedding: nn.Embedding,
        output: DeepOutput | LinearOutput,
        state_width: int,
        region_width: int,
        gate: str = "scalar",
        initial_state: str = "linear",
        word_dropout: float = 0.0,
        embedding_dropout: float = 0.0,
        region_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        word_width = embedding.embedding_dim
        self.attention, self.embedding, self.output = attention, embedding, output
        self.region_width, self.state_width = region_width, state_width
        self.region_dropout = nn.Dropout(region_dropout)
        self.word_dropout, self.embedding_dropout = nn.Dropout(word_dropout), nn.Dropout(embedding_dropout)
        self.initial_hidden = _initial_state(initial_state, region_width, state_width)
        self.initial_cell = _initial_state(initial_state, region_width, state_width)
        self.word_gates = nn.Linear(word_width, 4 * state_width)
        self.state_gates = nn.Linear(state_width, 4 * state_width, bias=False)
        self.context_gates = nn.Linear(region_width, 4 * state_width, bias=False)
        self.context_gate = _context_gate(gate, state_width, region_width)
        _initialize_recurrence(self)

    def remember(self, features: ImageFeatures) -> ImageMemory:
        """Everything that is done once an image, in the compute type (autocast's, else the parameters' own)."""
        dtype = compute_dtype(self.embedding.weight)
        regions = self.region_dropout(features.regions.to(dtype))
        mask = None if features.mask is None else features.mask.unsqueeze(-1)
        mean = masked_mean(regions.to(self.embedding.weight.dtype), mask, 1)
        initial = State(*(part(mean).unsqueeze(1) for part in (self.initial_hidden, self.initial_cell)))
        return ImageMemory(
            self.attention.remember(regions, mask=features.mask),
            State(initial.hidden.to(dtype), initial.cell),
            SharedWeight(self.state_gates.weight.to(dtype)),
            SharedWeight(self.context_gates.weight.to(dtype)),
            None if self.context_gate is None else SharedWeight(self.context_gate.weight.to(dtype)),
        )

    def step(self, memory: ImageMemory, state: State, word_gates: Tensor) -> tuple[State, Tensor, Tensor]:
        """One step of the recurrence for the first B' images of the memory.

        `word_gates` (B', M, 4H) is the previous words' part of the LSTM's gates. Returns the new state, the gated
        context (B', M, D) and the attention weights (B', M, R).
        """
        attended = self.attention(state.hidden, memory.attended)
        context = attended.context
        if self.context_gate is not None and memory.to_gate is not None:
            logits = memory.to_gate(state.hidden)
            context = (logits + self.context_gate.bias.to(logits.dtype)).sigmoid() * context
        gates = word_gates + memory.from_state(state.hidden) + memory.from_context(context)
        hidden, cell = lstm_cell(gates, state.cell)
        return State(hidden.to(state.hidden.dtype), cell), context, attended.weights

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
        words = PackedWords.of(is_word)
        memory = self.remember(features)
        dtype = compute_dtype(self.embedding.weight)
        with torch.autocast(inputs.device.type, enabled=False):
            return self._read(memory, inputs, words, dtype=dtype, sampling=sampling)

    def _read(
        self,
        memory: ImageMemory,
        inputs: Tensor,
        words: PackedWords,
        *,
        dtype: torch.dtype,
        sampling: ScheduledSampling | None,
    ) -> Reading:
        by_time = [inputs[:count, :, t] for t, count in enumerate(words.running)]
        embedded = self.embed(torch.cat([step.flatten() for step in by_time]), dtype)
        sizes = [step.numel() for step in by_time]
        gates = linear(self.word_gates, embedded).split(sizes)
        read = list(embedded.split(sizes))
        state = State(*(part.expand(-1, inputs.shape[1], -1) for part in memory.initial))
        states: list[Tensor] = []
        contexts: list[Tensor] = []
        weights: list[Tensor] = []
        for t, step_words in enumerate(by_time):
            step_gates = gates[t]
            if sampling is not None and t:
                kept = step_words.numel()
                logits = self.output(read[t - 1][:kept], states[-1][:kept], contexts[-1][:kept])
                read[t] = self.embed(sampling.mix(step_words.flatten(), logits), dtype)
                step_gates = linear(self.word_gates, read[t])
            state, context, looked = self.step(
                memory, state.first(len(step_words)), step_gates.unflatten(0, step_words.shape)
            )
            states.append(state.hidden.flatten(0, 1))
            contexts.append(context.flatten(0, 1))
            weights.append(looked.flatten(0, 1))
        rows = words.rows
        of_words = [torch.cat(steps).index_select(0, rows) for steps in (read, states, contexts, weights)]
        return Reading(self.output(*of_words[:3]), of_words[3], words)

    def embed(self, words: Tensor, dtype: torch.dtype) -> Tensor:
        """Word ids (...) -> vectors (..., E) of this type; in training with dropout of components and whole words."""
        vectors = self.embedding_dropout(self.embedding(words).to(dtype))
        if self.training and self.word_dropout.p > 0:
            vectors = vectors * self.word_dropout(vectors.new_ones(*words.shape, 1))
        return vectors

    def advance(self, memory: ImageMemory, state: State, words: Tensor) -> tuple[State, Tensor, Tensor]:
        """One step of decoding: words (B, K) just chosen -> state, log-probabilities (B, K, V), weights (B, K, R)."""
        embedded = self.embed(words, state.hidden.dtype)
        state, context, weights = self.step(memory, state, linear(self.word_gates, embedded))
        return state, self.output(embedded, state.hidden, context).float().log_softmax(-1), weights


def _initial_state(kind: str, region_width: int, state_width: int) -> nn.Module:
    if kind not in INITIAL_STATES:
        raise ConfigError(f"initial_state: expected one of {', '.join(INITIAL_STATES)}, got {kind!r}")
    layers: list[nn.Module] = [nn.Linear(region_width, state_width)]
    if kind != "linear":
        layers.append(nn.Tanh())
    if kind == "mlp":
        layers += [nn.Linear(state_width, state_width), nn.Tanh()]
    return nn.Sequential(*layers)


def _context_gate(kind: str, state_width: int, region_width: int) -> nn.Linear | None:
    if kind not in GATES:
        raise ConfigError(f"gate: expected one of {', '.join(GATES)}, got {kind!r}")
    return None if kind == "none" else nn.Linear(state_width, 1 if kind == "scalar" else region_width)


def _initialize_recurrence(decoder: ShowAttendTell) -> None:
    nn.init.uniform_(decoder.embedding.weight, -0.1, 0.1)
    for gate in decoder.state_gates.weight.chunk(4):
        nn.init.orthogonal_(gate)
