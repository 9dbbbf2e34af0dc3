"""A decoder small enough to list all its ways to look, with maps that are neither even nor certain."""

import torch
from torch import nn

from captioning.attention import Attention
from captioning.decoders.output import DeepOutput
from captioning.decoders.show_attend_tell import ShowAttendTell
from captioning.estimation.problem import Problem
from captioning.features.image_features import ImageFeatures
from captioning.text.vocabulary import END, PAD, START

R, T, D, V, E, H, A = 5, 3, 7, 11, 13, 17, 19
LOUDER = 3.0
"""What the fresh parameters are multiplied by, so that it matters where one looks."""


def toy_problem(seed: int = 1) -> Problem:
    """Two images with R = 5 regions and one caption each, of T = 3 words and of 2: 125 and 25 ways to look."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        decoder = ShowAttendTell(
            attention=Attention(query_width=H, key_width=D, width=A),
            embedding=nn.Embedding(V, E),
            output=DeepOutput(vocabulary_size=V, word_width=E, state_width=H, region_width=D, dropout=0.0),
            state_width=H,
            region_width=D,
        ).double()
        with torch.no_grad():
            for parameter in decoder.parameters():
                parameter.mul_(LOUDER)
        regions = torch.randn(2, R, D, dtype=torch.float64)
    words = torch.tensor([[[START, 5, 6, END]], [[START, 7, END, PAD]]])
    return Problem(decoder, ImageFeatures(regions, 1, R), words)
