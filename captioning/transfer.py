"""Start from a trained captioner with another vocabulary: take what fits, and say what was taken."""

from dataclasses import dataclass

import torch
from torch import Tensor

from captioning.captioner import Captioner
from captioning.text.vocabulary import SPECIAL_WORDS, Vocabulary


@dataclass(frozen=True)
class Transfer:
    """What a fresh captioner took from a trained one."""

    taken: tuple[str, ...]
    """Parameters and buffers that were taken whole."""
    by_word: tuple[str, ...]
    """Those of which the rows of shared words were taken."""
    fresh: tuple[str, ...]
    """Those that stay as they were: absent in the trained one, or of another shape there."""
    shared_words: int
    """Words of the new vocabulary that the old one knows, special ones included."""
    new_words: int
    """Words that are learned from scratch."""

    def describe(self) -> str:
        """A few lines for a log."""
        fresh = ", ".join(self.fresh) or "none"
        return (
            f"taken whole: {len(self.taken)} tensors; by word: {', '.join(self.by_word) or 'none'} "
            f"({self.shared_words} shared words, {self.new_words} new); fresh: {fresh}"
        )


def transfer(source: Captioner, target: Captioner) -> Transfer:
    """Copy weights from `source` into `target` by name; rows that belong to words are copied by word."""
    old, new = source.state_dict(), target.state_dict()
    old_rows, new_rows = _shared_rows(source.vocabulary, target.vocabulary)
    taken, by_word, fresh = [], [], []
    with torch.no_grad():
        for name, tensor in new.items():
            if name not in old:
                fresh.append(name)
            elif _has_words(name):
                if _copy_rows(old[name], tensor, old_rows, new_rows):
                    by_word.append(name)
                else:
                    fresh.append(name)
            elif old[name].shape == tensor.shape:
                tensor.copy_(old[name])
                taken.append(name)
            else:
                fresh.append(name)
    return Transfer(tuple(taken), tuple(by_word), tuple(fresh), len(new_rows), len(target.vocabulary) - len(new_rows))


def _has_words(name: str) -> bool:
    return name.startswith(("decoder.embedding.", "decoder.output.vocabulary."))


def _shared_rows(old: Vocabulary, new: Vocabulary) -> tuple[Tensor, Tensor]:
    special = list(range(len(SPECIAL_WORDS)))
    words = [word for word in new.words if word in old and word in new]
    old_rows, new_rows = ([*special, *(vocabulary[word] for word in words)] for vocabulary in (old, new))
    return torch.tensor(old_rows), torch.tensor(new_rows)


def _copy_rows(old: Tensor, new: Tensor, old_rows: Tensor, new_rows: Tensor) -> bool:
    if old.shape[1:] != new.shape[1:]:
        return False
    new[new_rows] = old[old_rows]
    return True
