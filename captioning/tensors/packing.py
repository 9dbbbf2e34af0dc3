"""Real words only: the positions of (B, M, T) that hold a word, in order of time.

A recurrence runs over the leading images that still have a word, so its step t yields B_t · M rows. What comes after
the recurrence (deep output, vocabulary layer, loss) sees only the rows that are words.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PackedWords:
    """n words among B images × M captions × T positions."""

    running: tuple[int, ...]
    """For each step the number B_t of leading images that must be computed; tight when long captions come first.

    A batch without any word runs one step of one image, so that its empty loss still has a graph."""
    time: Tensor
    """(n,) position of each word in its caption."""
    caption: Tensor
    """(n,) caption of each word, b · M + m."""
    images: int
    captions: int
    """B and M."""

    @classmethod
    def of(cls, is_word: Tensor) -> "PackedWords":
        """From (B, M, T) boolean, True = is a word."""
        images, captions, _ = is_word.shape
        order = torch.arange(1, images + 1, device=is_word.device).unsqueeze(1)
        running = (order * is_word.any(1)).amax(0).tolist()
        time, caption = is_word.flatten(0, 1).T.nonzero(as_tuple=True)
        return cls(tuple(count for count in running if count) or (1,), time, caption, images, captions)

    @property
    def rows(self) -> Tensor:
        """(n,) row of each word in the concatenation of all steps' (B_t · M) rows."""
        sizes = torch.tensor([0, *self.running[:-1]], device=self.time.device) * self.captions
        return sizes.cumsum(0)[self.time] + self.caption

    def pack(self, values: Tensor) -> Tensor:
        """(B, M, T, ...) -> (n, ...)."""
        return values.flatten(0, 1)[self.caption, self.time]

    def unpack(self, values: Tensor) -> Tensor:
        """(n, ...) -> (B, M, T, ...), zero where there is no word."""
        whole = values.new_zeros(self.images * self.captions, len(self.running), *values.shape[1:])
        whole[self.caption, self.time] = values
        return whole.unflatten(0, (self.images, self.captions))

    def sum_over_time(self, values: Tensor) -> Tensor:
        """(n, ...) -> (B, M, ...): the sum over each caption's words."""
        total = values.new_zeros(self.images * self.captions, *values.shape[1:])
        return total.index_add(0, self.caption, values).unflatten(0, (self.images, self.captions))
