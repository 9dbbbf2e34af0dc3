"""Show, Attend and Tell as the widely copied PyTorch port computes it: the slow, obvious twin of our decoder.

One caption a row, so an image's regions are repeated for each of its captions; rows sorted by falling length,
and at every step the rows still running go through everything: the regions are projected to keys again, the
vocabulary layer runs, and scores are additive with a ReLU. The beam takes one image at a time. Right, and no
cleverer than that.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence


class Reading(NamedTuple):
    """What the decoder makes of given captions, rows sorted by falling length."""

    logits: Tensor
    """(N, T, V), zero after a caption's end."""
    weights: Tensor
    """(N, T, R), zero after a caption's end."""
    targets: Tensor
    """(N, T) the word that was to be said."""
    lengths: list[int]
    """Targets of each row, END counted."""
    order: Tensor
    """(N,) the row of the input that each row was."""


class Caption(NamedTuple):
    words: list[int]
    """Without START and END."""
    score: float
    """Sum of the log-probabilities, END's included where it was reached."""
    finished: bool
    weights: Tensor
    """(T, R), END's row included where it was reached."""


class TextbookAttention(nn.Module):
    """score_i = w · relu(W_a a_i + W_h h); weights by softmax; context by expectation."""

    def __init__(self, region_width: int, state_width: int, attention_width: int) -> None:
        super().__init__()
        self.key = nn.Linear(region_width, attention_width)
        self.query = nn.Linear(state_width, attention_width)
        self.score = nn.Linear(attention_width, 1)

    def forward(self, regions: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(N, R, D), (N, H) -> context (N, D), weights (N, R)."""
        scores = self.score(F.relu(self.key(regions) + self.query(hidden).unsqueeze(1))).squeeze(2)
        weights = scores.softmax(1)
        return (regions * weights.unsqueeze(2)).sum(1), weights


class TextbookCaptioner(nn.Module):
    """The decoder, its loss and its beam search."""

    def __init__(
        self,
        *,
        vocabulary_size: int,
        region_width: int,
        word_width: int = 512,
        state_width: int = 512,
        attention_width: int = 512,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.attention = TextbookAttention(region_width, state_width, attention_width)
        self.embedding = nn.Embedding(vocabulary_size, word_width)
        self.dropout = nn.Dropout(dropout)
        self.cell = nn.LSTMCell(word_width + region_width, state_width)
        self.initial_hidden = nn.Linear(region_width, state_width)
        self.initial_cell = nn.Linear(region_width, state_width)
        self.gate = nn.Linear(state_width, region_width)
        self.vocabulary = nn.Linear(state_width, vocabulary_size)

    def initial_state(self, regions: Tensor) -> tuple[Tensor, Tensor]:
        """(N, R, D) -> hidden and cell, (N, H) each."""
        mean = regions.mean(1)
        return self.initial_hidden(mean), self.initial_cell(mean)

    def step(
        self, regions: Tensor, words: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Regions (N, R, D), embedded words (N, E), state -> logits (N, V), weights (N, R), state."""
        context, weights = self.attention(regions, state[0])
        gated = torch.sigmoid(self.gate(state[0])) * context
        state = self.cell(torch.cat([words, gated], 1), state)
        return self.vocabulary(self.dropout(state[0])), weights, state

    def forward(self, regions: Tensor, captions: Tensor, lengths: Tensor) -> Reading:
        """Teacher forcing. regions (N, R, D), captions (N, T+1): START w1 .. END PAD; lengths (N,): n + 1."""
        lengths, order = lengths.sort(descending=True, stable=True)
        regions, captions = regions[order], captions[order]
        running = lengths.tolist()
        embedded = self.embedding(captions)
        hidden, cell = self.initial_state(regions)
        logits = regions.new_zeros(len(captions), running[0], self.vocabulary.out_features)
        all_weights = regions.new_zeros(len(captions), running[0], regions.shape[1])
        for time in range(running[0]):
            rows = sum(length > time for length in running)
            step_logits, weights, (hidden, cell) = self.step(
                regions[:rows], embedded[:rows, time], (hidden[:rows], cell[:rows])
            )
            logits[:rows, time] = step_logits
            all_weights[:rows, time] = weights
        return Reading(logits, all_weights, captions[:, 1 : running[0] + 1], running, order)

    def loss(self, regions: Tensor, captions: Tensor, lengths: Tensor, penalty: float = 1.0) -> Tensor:
        """Mean over words of −log p(y_t), plus penalty · mean over rows and regions of (1 − Σ_t α_ti)²."""
        reading = self(regions, captions, lengths)
        logits = pack_padded_sequence(reading.logits, reading.lengths, batch_first=True).data
        targets = pack_padded_sequence(reading.targets, reading.lengths, batch_first=True).data
        return F.cross_entropy(logits, targets) + penalty * ((1 - reading.weights.sum(1)) ** 2).mean()

    @torch.no_grad()
    def beam_search(self, regions: Tensor, *, start: int, end: int, beam_size: int, maximum_length: int) -> Caption:
        """The best caption of one image, regions (R, D): the beam narrows whenever a caption ends."""
        width = beam_size
        regions = regions.expand(width, *regions.shape)
        words = torch.full((width,), start)
        sequences, sums = words.unsqueeze(1), torch.zeros(width, 1)
        maps = torch.zeros(width, 0, regions.shape[1])
        state = self.initial_state(regions)
        ended: list[tuple[float, Tensor, Tensor]] = []
        for time in range(maximum_length):
            logits, weights, state = self.step(regions, self.embedding(words), state)
            totals = sums + logits.log_softmax(1)
            best, flat = (totals[0] if time == 0 else totals.flatten()).topk(width)
            parents, words = flat // totals.shape[1], flat % totals.shape[1]
            sequences = torch.cat([sequences[parents], words.unsqueeze(1)], 1)
            maps = torch.cat([maps[parents], weights[parents].unsqueeze(1)], 1)
            complete = (words == end).nonzero().flatten().tolist()
            ended += [(best[row].item(), sequences[row], maps[row]) for row in complete]
            open_rows = (words != end).nonzero().flatten()
            width = len(open_rows)
            if width == 0:
                break
            sequences, maps, sums, words = (x[open_rows] for x in (sequences, maps, best.unsqueeze(1), words))
            regions = regions[parents[open_rows]]
            state = (state[0][parents[open_rows]], state[1][parents[open_rows]])
        if ended:
            score, sequence, weights = max(ended, key=lambda caption: caption[0])
            return Caption(sequence[1:-1].tolist(), score, True, weights)
        return Caption(sequences[0, 1:].tolist(), sums[0].item(), False, maps[0])
