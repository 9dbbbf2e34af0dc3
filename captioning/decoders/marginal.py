"""Show, Attend and Tell with its likelihood summed over all ways to look (after Wu, Shapiro and Cotterell, 2018).

    h_t      = LSTM(E y_{t-1}, h_{t-1})
    α_t      = attention weights of h_{t-1} over the regions
    p(y_t|i) ∝ exp(L_o f(E y_{t-1} + L_h h_t + β_t L_z a_i))
    p(y_t)   = Σ_i α_ti p(y_t | i)

The state never sees what was attended, so that given the words no glimpse depends on another one, and

    log p(y) = log Σ_s Π_t α_{t s_t} p(y_t | s_t) = Σ_t log p(y_t)

is the exact log-likelihood of hard attention over all R^T ways to look, in O(T · R · V) and without an estimator. The
logits that this decoder gives are log p(y_t), so cross-entropy trains it. Soft attention mixes regions and asks once;
this asks every region and mixes the answers.
"""

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from captioning.attention import Attended, Attention, Memory
from captioning.attention.given import Shares
from captioning.attention.normalizers import safe_log
from captioning.attention.selection import Soft
from captioning.decoders.decoder import Dropouts
from captioning.decoders.output import DeepOutput
from captioning.decoders.recurrent import ImageMemory
from captioning.decoders.show_attend_tell import ShowAttendTell
from captioning.errors import ConfigError
from captioning.estimators import log_marginal
from captioning.features.image_features import ImageFeatures
from captioning.tensors.precision import at_least_float32, linear

AT_ONCE = 1 << 23
"""Numbers (words × R × V) that are there at a time; those of the backward pass are computed again."""
GATES = ("scalar", "none")


class Marginal(ShowAttendTell):
    """The decoder. Its "context" is how the answers of the regions are mixed, (..., R), and β, (..., 1).

    At test time a rule says what is mixed: all by their weights (expected), the answer of one region (argmax, sample),
    or those of several (mean_of_k).
    """

    attention: Attention
    output: DeepOutput

    def __init__(
        self,
        *,
        attention: Attention,
        embedding: nn.Embedding,
        output: DeepOutput,
        state_width: int,
        region_width: int,
        gate: str = "scalar",
        initial_state: str = "linear",
        dropouts: Dropouts = Dropouts(),  # noqa: B008 (frozen)
    ) -> None:
        if gate not in GATES:
            raise ConfigError(f"decoder marginal: gate: expected one of {', '.join(GATES)}, got {gate!r}")
        if not isinstance(attention.selection, Soft) or attention.selection.dropout:
            raise ConfigError(
                "decoder marginal: expected attention with selection soft and dropout 0: it draws no region and sums "
                "over all of them by weights that sum to one"
            )
        super().__init__(
            attention=attention,
            embedding=embedding,
            output=output,
            state_width=state_width,
            region_width=region_width,
            gate=gate,
            initial_state=initial_state,
            feed_context=False,
            dropouts=dropouts,
        )

    def remember(self, features: ImageFeatures) -> ImageMemory:
        """As for show_attend_tell, and L_z a_i of all regions (B, R, E), which the output asks for at every word."""
        memory = super().remember(features)
        return replace(memory, constant=linear(self.output.from_context, self.regions(features)))

    def look(self, queries: Tensor, memory: ImageMemory, looked: Tensor | None) -> Attended:
        """How the answers are to be mixed, for queries (B', M, H)."""
        attended = cast(Memory, memory.attended)
        scored = self.attention.scores(queries, attended, looked)
        shares = Shares(scored.scores.shape[-1], at_least_float32(scored.scores).dtype)
        return self.attention.select(scored, shares)

    def gated(self, context: Tensor, gate: Tensor | None) -> Tensor:
        """(B', M, R + 1): the shares, and β as a number of its own."""
        one = torch.ones_like(context[..., :1])
        return torch.cat([context, one if gate is None else gate.to(context.dtype)], -1)

    def say(self, memory: ImageMemory, images: Tensor, word: Tensor, shown: Tensor, context: Tensor) -> Tensor:
        """(..., V) log p(y_t), in at least float32; a share of the words at a time."""
        projected, shape, words = cast(Tensor, memory.constant), word.shape[:-1], self.embedding.num_embeddings
        hidden = self.output.unseeing(word, shown)
        rows = [images.expand(shape).flatten(), *(each.flatten(0, -2) for each in (hidden, context))]
        if torch.compiler.is_compiling():  # a graph to export has no number of words yet to cut
            return self._mixed(projected, *rows).view(*shape, words)
        size = max(1, AT_ONCE // (projected.shape[1] * words))
        said = [self._answers(projected, *part) for part in zip(*(each.split(size) for each in rows), strict=True)]
        return torch.cat(said).view(*shape, words)

    def _answers(self, projected: Tensor, images: Tensor, hidden: Tensor, context: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return self._mixed(projected, images, hidden, context)
        mixed: Tensor = checkpoint(self._mixed, projected, images, hidden, context, use_reentrant=False)
        return mixed

    def _mixed(self, projected: Tensor, images: Tensor, hidden: Tensor, context: Tensor) -> Tensor:
        """log Σ_i share_i p(y | i): (B, R, E), (n,), (n, E), (n, R + 1) -> (n, V)."""
        shares, gates = context.split([projected.shape[1], 1], -1)
        seen = gates.unsqueeze(-1).to(hidden.dtype) * projected[images]
        answers = at_least_float32(self.output.finish(hidden.unsqueeze(1) + seen)).log_softmax(-1)  # (n, R, V)
        return log_marginal(safe_log(shares).unsqueeze(1), answers.transpose(1, 2))
