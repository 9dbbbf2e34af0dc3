"""Words that must appear: a beam for each number of them that was said.

Grid beam search (Hokamp and Liu, 2017, arXiv 1704.07138) with its banks side by side, as in Post and Vilar (2018, arXiv
1804.06609), so that a step is one call of the model and one selection for all of them. Their banks share one width;
here each has the whole of it, so that a word more takes no room from the others. That costs C + 1 times the hypotheses
of a beam without C such words.
"""

import torch
from torch import Tensor

from captioning.decoding.choosing import Chooser, Open
from captioning.decoding.constraints import missing
from captioning.decoding.trace import Choice
from captioning.errors import ConfigError


class Banks(Chooser):
    """Bank j holds the `width` best hypotheses that have said j of the words.

    A hypothesis stays in its bank with any word but one that it still misses, and moves to the next with each of those,
    however unlikely. So where the rest of the constraints allow it, the last bank is never empty.
    """

    def __init__(self, width: int, words: tuple[int, ...]) -> None:
        if width < 1:
            raise ConfigError(f"beam_size: expected at least 1, got {width}")
        self.width, self.words = width, words
        self.banks = len(words) + 1

    def start(self, images: int) -> Tensor:
        """One hypothesis, in bank 0."""
        totals = torch.full((images, self.banks), -torch.inf)
        totals[:, 0] = 0
        return totals

    def choose(self, allowed: Tensor, opened: Open) -> Choice:
        """As for all; places and parents are bank by bank."""
        words = torch.tensor(self.words, device=allowed.device)
        still = missing(self.words, opened.said)  # (B, K, C)
        of_words = allowed[..., words]
        staying = allowed.index_copy(-1, words, of_words.masked_fill(still, -torch.inf))
        likeliest, stay_words = staying.topk(min(self.width, staying.shape[-1]))
        moves = of_words.masked_fill(~still, -torch.inf)
        log_probabilities = self._pool(likeliest.float(), moves.float(), -torch.inf)  # (B, banks, pool)
        places = torch.arange(opened.totals.shape[1], device=allowed.device).view(1, -1, 1)
        parents = self._pool(places.expand_as(likeliest), places.expand_as(moves), 0)
        next_words = self._pool(stay_words, words.expand_as(moves), 0)
        totals = opened.totals.gather(1, parents.flatten(1)).view_as(parents) + log_probabilities
        best, chosen = totals.topk(min(self.width, totals.shape[-1]))  # (B, banks, k)
        rest = (kept.gather(-1, chosen).flatten(1) for kept in (log_probabilities, next_words, parents))
        return Choice(best.flatten(1), *rest)

    def cut(self, totals: Tensor) -> Tensor:
        """Those of the last bank that holds any: captions that say as many of the words as there are."""
        by_bank = totals.unflatten(1, (self.banks, -1))
        number = torch.arange(self.banks, device=totals.device)
        last = ((by_bank > -torch.inf).any(-1) * number).amax(-1, keepdim=True)
        return by_bank.masked_fill((number != last).unsqueeze(-1), -torch.inf).flatten(1)

    def _pool(self, staying: Tensor, moving: Tensor, nothing: float) -> Tensor:
        """What stays (B, K, k) and what moves (B, K, C) -> for each bank what may come into it, (B, banks, pool)."""
        stays, moves = (part.unflatten(1, (self.banks, -1)).flatten(2) for part in (staying, moving))
        moved = torch.cat([torch.full_like(moves[:, :1], nothing), moves[:, :-1]], 1)
        return torch.cat([stays, moved], -1)
