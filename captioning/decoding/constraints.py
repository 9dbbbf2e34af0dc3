"""Which words a search may choose.

A forbidden word's log-probability becomes −∞ before the choice, and the others stay as they are: they are
*not* renormalised. So the log-probabilities that a search reports are the model's own, and teacher forcing
gives them again.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from captioning.errors import ConfigError


@dataclass(frozen=True)
class Constraints:
    """Words that are never chosen, and how soon and how late a caption may end."""

    end: int
    """The word that ends a caption."""
    maximum_length: int
    """Most choices a caption may take, END being one; what has not ended by then is cut off."""
    forbidden: tuple[int, ...] = ()
    """Never chosen, at any step."""
    minimum_length: int = 0
    """Fewest words before END."""

    def __post_init__(self) -> None:
        if self.end in self.forbidden:
            raise ConfigError(f"forbidden: expected words other than END ({self.end}), got {self.forbidden}")
        if not 0 <= self.minimum_length < self.maximum_length:
            raise ConfigError(
                "lengths: expected 0 <= minimum_length < maximum_length, "
                f"got minimum_length {self.minimum_length} and maximum_length {self.maximum_length}"
            )

    def apply(self, log_probabilities: Tensor, length: int) -> Tensor:
        """(..., V) of the word after `length` words -> the same with −∞ at what may not be chosen."""
        banned = self.forbidden if length >= self.minimum_length else (*self.forbidden, self.end)
        if not banned:
            return log_probabilities
        index = torch.tensor(banned, device=log_probabilities.device)
        return log_probabilities.index_fill(-1, index, -torch.inf)
