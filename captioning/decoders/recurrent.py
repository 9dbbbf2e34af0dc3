"""What recurrent decoders share: reading given captions step by step, and one step of decoding.

A decoder of this family says what it keeps of an image (`remember`) and what one step does (`step`). Whatever is the
same for all captions of an image is computed once an image; whatever is the same for all steps (the words' part of
the gates, the output and vocabulary layers, weight gradients) is one product.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from captioning.attention import Attended
from captioning.attention.selection import Mixed
from captioning.decoders.decoder import Advance, Decoder, Dropouts, Memory
from captioning.decoders.output import DeepOutput, LinearOutput
from captioning.decoders.reading import Reading
from captioning.decoders.scheduled_sampling import ScheduledSampling
from captioning.decoders.state import LSTMState, State
from captioning.errors import ConfigError
from captioning.features.image_features import ImageFeatures
from captioning.tensors.masking import masked_mean
from captioning.tensors.packing import PackedWords
from captioning.tensors.precision import compute_dtype, linear
from captioning.tensors.recurrence import SharedWeight

CELL, LOG_PROBABILITY, ENTROPY, SAMPLED, QUERY = "cell", "log_probability", "entropy", "sampled", "query"
"""Details that a decoder whose attention chooses one cell reports of a word, the last four in training; the query is
the state before the choice, which holds nothing of it."""
INITIAL_STATES = ("linear", "tanh", "mlp")


class Attends(Protocol):
    """What a decoder asks of its attention: an `Attention`, or a control in its place."""

    @property
    def needs_previous(self) -> bool:
        """Whether the weights of the step before are to be handed in."""

    def remember(self, keys: Tensor, *, mask: Tensor | None, grid: tuple[int, int]) -> Any:
        """What is done once an image."""

    def __call__(self, queries: Tensor, memory: Any, previous: Tensor | None, **chosen: Tensor) -> Attended:
        """Queries (B', N, Dq) -> context (B', N, D), weights (B', N, R); `chosen` has the coins of mixed attention."""


@dataclass(frozen=True)
class ImageMemory:
    """What a decoder keeps of B images for all their captions and steps."""

    attended: Memory
    """What the attention keeps."""
    initial: State
    """The state before the first word, (B, 1, ...)."""
    weights: Mapping[str, SharedWeight]
    """The matrices that every step uses, by the name of their layer."""
    constant: Tensor | None = None
    """(B, ...) what every step adds or looks at, such as the mean region's part of the gates."""
    coins: Tensor | None = None
    """(B, 1) boolean, of `mixed` attention in training: whether the image is read with sampled regions throughout."""

    def select(self, images: Tensor) -> "ImageMemory":
        """These images only; for decoding."""
        return replace(
            self,
            attended=self.attended.select(images),
            initial=self.initial.select(images),
            constant=None if self.constant is None else self.constant[images],
        )


class Glimpse(NamedTuple):
    """What one step gives."""

    state: State
    """After the step."""
    shown: Tensor
    """(B, M, H) what the output layer sees of the state."""
    context: Tensor
    """(B, M, D) what was selected from the image."""
    weights: Tensor
    """(B, M, R) where."""
    details: Mapping[str, Tensor] = {}
    """What else a decoder reports of a word, by name: (B, M, ...), such as the weight of a sentinel."""


class RecurrentDecoder(Decoder):
    """Base of the recurrent decoders: `output` is a DeepOutput or LinearOutput of what `step` shows."""

    attention: Any
    """An `Attends`."""
    word_gates: nn.Linear
    """From a word's vector to its part of the gates; a subclass makes it."""
    own_values = 0
    """What a query can attend to besides the regions."""

    def __init__(
        self, *, attention: Attends, embedding: nn.Embedding, output: DeepOutput | LinearOutput, dropouts: Dropouts
    ) -> None:
        super().__init__(embedding=embedding, output=output, dropouts=dropouts)
        self.attention = attention

    def remember(self, features: ImageFeatures) -> ImageMemory:
        """Everything that is done once an image, in the compute type (autocast's, else the parameters' own)."""
        raise NotImplementedError

    def step(self, memory: ImageMemory, state: State, word_gates: Tensor) -> Glimpse:
        """One step for the first B' images of the memory; `word_gates` (B', M, G) is the previous words' part."""
        raise NotImplementedError

    def forward(
        self,
        features: ImageFeatures,
        inputs: Tensor,
        is_word: Tensor,
        sampling: ScheduledSampling | None = None,
    ) -> Reading:
        """As for all decoders, step by step."""
        words = PackedWords.of(is_word)
        memory = self.remember(features)
        dtype = compute_dtype(self.embedding.weight)
        with torch.autocast(inputs.device.type, enabled=False):
            return self._read(memory, inputs, words, dtype=dtype, sampling=sampling)

    def start(self, features: ImageFeatures) -> tuple[ImageMemory, State]:
        """As for all decoders."""
        memory = self.remember(features)
        return memory, memory.initial

    def advance(self, memory: ImageMemory, state: State, words: Tensor) -> Advance:
        """As for all decoders."""
        embedded = self.embed(words, compute_dtype(self.embedding.weight))
        glimpse = self.step(memory, state, linear(self.word_gates, embedded))
        images = torch.arange(words.shape[0], device=words.device).unsqueeze(1)
        logits = self.say(memory, images, embedded, glimpse.shown, glimpse.context)
        return Advance(glimpse.state, logits.float().log_softmax(-1), glimpse.weights, glimpse.details)

    def say(self, memory: ImageMemory, images: Tensor, word: Tensor, shown: Tensor, context: Tensor) -> Tensor:
        """(..., V) logits from words (..., E), states and contexts, of these images of the memory (..., or 1)."""
        logits: Tensor = self.output(word, shown, context)
        return logits

    def attend_to(self, features: ImageFeatures, regions: Tensor) -> Any:
        """What the attention keeps of `regions` (B, R, ...), which lie on the grid of `features`."""
        return self.attention.remember(regions, mask=features.mask, grid=(features.rows, features.columns))

    def look(self, queries: Tensor, memory: ImageMemory, looked: Tensor | None) -> Attended:
        """Attend with queries (B', M, H)."""
        coins = self.coins_of(memory, queries)
        chosen = {} if coins is None else {"coins": coins}
        attended: Attended = self.attention(queries, memory.attended, looked, **chosen)
        return attended

    def toss(self, regions: Tensor) -> Tensor | None:
        """(B, 1) a coin for each image, kept for all steps of all its captions; None where none is needed."""
        selection = getattr(self.attention, "selection", None)
        return selection.toss(regions[:, :1]) if self.training and isinstance(selection, Mixed) else None

    def coins_of(self, memory: ImageMemory, queries: Tensor) -> Tensor | None:
        """(B', M) the coins of the first B' images, for queries (B', M, H)."""
        return None if memory.coins is None else memory.coins[: len(queries)].expand(queries.shape[:2])

    def choice(self, attended: Attended, queries: Tensor) -> dict[str, Tensor]:
        """What a random or hard selection of queries (B', M, H) reports: the cell (B', M) that was chosen, and what an
        estimator needs."""
        if attended.index is None:
            return {}
        reported = {CELL: attended.index}
        if self.training and attended.log_probability is not None:
            always = torch.ones_like(attended.index, dtype=torch.bool)
            sampled = always if attended.sampled is None else attended.sampled
            reported |= {
                LOG_PROBABILITY: attended.log_probability,
                ENTROPY: attended.entropy,
                SAMPLED: sampled,
                QUERY: queries.detach(),
            }
        return reported

    def followed(self, weights: Tensor) -> Tensor | None:
        """The weights that the state has to carry to the next step: none where no locality asks for them."""
        return weights if self.attention.needs_previous else None

    def regions_and_mean(self, features: ImageFeatures) -> tuple[Tensor, Tensor]:
        """Regions (B, R, D) in the compute type, and their mean (B, 1, D) in the parameters' own."""
        regions = self.regions(features)
        mask = None if features.mask is None else features.mask.unsqueeze(-1)
        return regions, masked_mean(regions.to(self.embedding.weight.dtype), mask, 1).unsqueeze(1)

    def shared_weights(self, *layers: str) -> dict[str, SharedWeight]:
        """The weights of these layers in the compute type, for all steps."""
        dtype = compute_dtype(self.embedding.weight)
        return {name: SharedWeight(getattr(self, name).weight.to(dtype)) for name in layers}

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
        state = memory.initial.spread(inputs.shape[1])
        steps = _Steps()
        for t, step_words in enumerate(by_time):
            step_gates = gates[t]
            if sampling is not None and t:
                count = step_words.numel()
                image = torch.arange(count, device=inputs.device) // inputs.shape[1]
                logits = self.say(memory, image, read[t - 1][:count], *steps.latest(count))
                read[t] = self.embed(sampling.mix(step_words.flatten(), logits), dtype)
                step_gates = linear(self.word_gates, read[t])
            glimpse = self.step(memory, state.first(len(step_words)), step_gates.unflatten(0, step_words.shape))
            state = glimpse.state
            steps.add(glimpse)
        rows = words.rows
        of_words = [torch.cat(parts).index_select(0, rows) for parts in (read, steps.shown, steps.contexts)]
        details = {name: torch.cat(parts).index_select(0, rows) for name, parts in steps.details.items()}
        logits = self.say(memory, words.caption // words.captions, *of_words)
        return Reading(logits, torch.cat(steps.weights).index_select(0, rows), words, details)


@dataclass
class _Steps:
    """What the steps gave so far, images × captions flattened."""

    shown: list[Tensor] = field(default_factory=list)
    contexts: list[Tensor] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)
    details: dict[str, list[Tensor]] = field(default_factory=dict)

    def add(self, glimpse: Glimpse) -> None:
        for kept, part in (
            (self.shown, glimpse.shown),
            (self.contexts, glimpse.context),
            (self.weights, glimpse.weights),
        ):
            kept.append(part.flatten(0, 1))
        for name, part in glimpse.details.items():
            self.details.setdefault(name, []).append(part.flatten(0, 1))

    def latest(self, rows: int) -> tuple[Tensor, Tensor]:
        return self.shown[-1][:rows], self.contexts[-1][:rows]


class InitialState(nn.Module):
    """h₀ = f_h(mean region), c₀ = f_c(mean region): linear, one layer with tanh, or two (the released code)."""

    def __init__(self, kind: str, region_width: int, state_width: int) -> None:
        super().__init__()
        self.hidden, self.cell = (_initial_map(kind, region_width, state_width) for _ in range(2))

    def forward(self, mean: Tensor, dtype: torch.dtype) -> LSTMState:
        """(B, 1, D) mean regions -> the state; hidden in the compute type, the cell in the parameters' own."""
        return LSTMState(self.hidden(mean).to(dtype), self.cell(mean))


def initialize_recurrence(embedding: nn.Embedding, *recurrent: nn.Linear) -> None:
    """Small even word vectors, and an orthogonal matrix for each gate of the recurrent layers."""
    nn.init.uniform_(embedding.weight, -0.1, 0.1)
    for layer in recurrent:
        for gate in layer.weight.chunk(layer.out_features // layer.in_features):
            nn.init.orthogonal_(gate)


def _initial_map(kind: str, region_width: int, state_width: int) -> nn.Sequential:
    if kind not in INITIAL_STATES:
        raise ConfigError(f"initial_state: expected one of {', '.join(INITIAL_STATES)}, got {kind!r}")
    layers: list[nn.Module] = [nn.Linear(region_width, state_width)]
    if kind != "linear":
        layers.append(nn.Tanh())
    if kind == "mlp":
        layers += [nn.Linear(state_width, state_width), nn.Tanh()]
    return nn.Sequential(*layers)
