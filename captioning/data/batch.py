"""What a model is given in one step: B pictures, and all captions of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from captioning.errors import ShapeError
from captioning.features.image_features import ImageFeatures
from captioning.text.vocabulary import PAD, START


class GivenCaptions:
    """What is read and what is to be said of M captions of B pictures."""

    words: Tensor
    """(B, M, T+1) int64: START w1 .. wn END PAD ...; a caption that does not exist is PAD throughout."""

    @property
    def inputs(self) -> Tensor:
        """(B, M, T) the word that is read at each position."""
        return self.words[..., :-1]

    @property
    def targets(self) -> Tensor:
        """(B, M, T) the word that is to be said at each position."""
        return self.words[..., 1:]

    @property
    def is_word(self) -> Tensor:
        """(B, M, T) boolean, True where there is a target; END is one."""
        return self.targets != PAD

    @property
    def captions(self) -> int:
        """How many captions exist, at most B * M."""
        return int((self.words[..., 0] == START).sum())


@dataclass(frozen=True)
class CaptionBatch(GivenCaptions):
    """B pictures, as features or pixels, each with up to M captions of up to T words (END is a word)."""

    image_ids: tuple[str, ...]
    """The B pictures, by id."""
    features: ImageFeatures | None
    """Their regions, where an encoder has seen them already; else None."""
    pixels: Tensor | None
    """(B, 3, S, S) what an encoder takes; None where `features` are there."""
    words: Tensor
    """(B, M, T+1) int64: START w1 .. wn END PAD ...; a caption that does not exist is PAD throughout."""

    def __post_init__(self) -> None:
        images = len(self.image_ids)
        pictures = [each for each in (self.features, self.pixels) if each is not None]
        if len(pictures) != 1:
            raise ShapeError(f"batch: expected either features or pixels, got {'both' if pictures else 'neither'}")
        if len(pictures[0]) != images:
            raise ShapeError(f"batch: expected a picture for each of {images} ids, got {len(pictures[0])}")
        if self.words.dim() != 3 or self.words.shape[0] != images or self.words.dtype != torch.int64:
            found = f"{tuple(self.words.shape)} {self.words.dtype}"
            raise ShapeError(f"words: expected (B, M, T+1) int64 with B = {images}, got {found}")

    def __len__(self) -> int:
        return len(self.image_ids)

    def repeated(self, times: int) -> "CaptionBatch":
        """Every caption `times` times, one after the other."""
        return self if times == 1 else replace(self, words=self.words.repeat_interleave(times, dim=1))

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "CaptionBatch":
        """The same batch on another device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "CaptionBatch":
        """The same batch in page-locked memory; torch's DataLoader calls this by name."""
        return self._map(lambda tensor: tensor.pin_memory())

    def _map(self, change: Callable[[Tensor], Tensor]) -> "CaptionBatch":
        features = self.features
        if features is not None:
            mask = None if features.mask is None else change(features.mask)
            features = replace(features, regions=change(features.regions), mask=mask)
        pixels = None if self.pixels is None else change(self.pixels)
        return replace(self, features=features, pixels=pixels, words=change(self.words))


def collate(
    image_ids: Sequence[str],
    pictures: ImageFeatures | Tensor,
    captions: Sequence[Sequence[Sequence[int] | np.ndarray]],
) -> CaptionBatch:
    """One batch of pictures and, for each, its captions as `Vocabulary.encode` gives them (START ... END).

    Pictures are features, or pixels (B, 3, S, S). A picture may have no caption: its rows are PAD.
    """
    features, pixels = (pictures, None) if isinstance(pictures, ImageFeatures) else (None, pictures)
    if len(captions) != len(image_ids):
        raise ShapeError(f"captions: expected one list for each of {len(image_ids)} ids, got {len(captions)}")
    most = max((len(of_image) for of_image in captions), default=0)
    longest = max((len(caption) for of_image in captions for caption in of_image), default=1)
    words = np.full((len(image_ids), most, longest), PAD, dtype=np.int64)
    for image, of_image in enumerate(captions):
        for row, caption in enumerate(of_image):
            words[image, row, : len(caption)] = caption
    return CaptionBatch(tuple(image_ids), features, pixels, torch.from_numpy(words))
