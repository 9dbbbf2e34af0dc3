"""Scheduled sampling (Bengio et al., 2015): in training, read one's own word now and then."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ScheduledSampling:
    """With a probability, each word that is read is drawn from the model's own distribution."""

    probability: float
    """Of reading one's own word."""
    generator: torch.Generator
    """Draws the coins and the words; on the words' device."""

    @torch.no_grad()
    def mix(self, words: Tensor, logits: Tensor) -> Tensor:
        """True words (n,) and the logits (n, V) that the model gave for them -> the words to read (n,).

        No gradient passes through the choice. A row that has no true word (padding) may be replaced too; what follows
        padding is padding.
        """
        coins = torch.rand(words.shape, generator=self.generator, device=words.device) < self.probability
        drawn = logits.float().softmax(-1).multinomial(1, generator=self.generator).squeeze(1)
        return torch.where(coins, drawn, words)
