"""The captions that a captioner says itself, and the probability of their single words as the image is changed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from captioning.captioner import Captioner
from captioning.data.batch import collate
from captioning.errors import DataError
from captioning.features.image_features import ImageFeatures
from captioning.inspection.subject import Progress, Subject, features_of, read_words
from captioning.text.vocabulary import PAD


@dataclass(frozen=True)
class SaidWords:
    """W words that were said, drawn from the captions of N images."""

    image: np.ndarray
    """(W,) which of the N images."""
    regions: Tensor
    """(N, R, D) as they are."""
    baseline: Tensor
    """(R, D) what stands in a removed cell: the mean of that cell over the N images, its place included."""
    read: Tensor
    """(W, T) START and the words before, then PAD."""
    position: Tensor
    """(W,) the word's place, from 0."""
    target: Tensor
    """(W,) the word."""
    maps: np.ndarray
    """(W, R) where the captioner looked for it."""
    words: tuple[str, ...]
    """(W,) as text."""

    def __len__(self) -> int:
        return len(self.target)

    def regions_of(self, rows: slice) -> Tensor:
        """(m, R, D) the image of each word."""
        return self.regions[torch.from_numpy(self.image[rows]).to(self.regions.device)]


def say(subject: Subject, most: int, *, seed: int, progress: Progress | None = None) -> SaidWords:
    """Caption every image by the subject's search, and draw up to `most` words of the captions, END not among them.

    Raises DataError where the captioner says no word of any image.
    """
    spoken = _captioned(subject, progress)
    words = read_words(spoken)
    rows = np.flatnonzero(~words.is_end)
    if not len(rows):
        raise DataError("inspect: expected captions to ask about, but the captioner says no word of any image")
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
    device, every_word = subject.captioner.device, subject.captioner.vocabulary.words
    image, position = (torch.from_numpy(each[rows]).to(device) for each in (words.image, words.position))
    inputs, targets = (_joined([getattr(batch, name) for batch in spoken.batches]) for name in ("inputs", "targets"))
    later = torch.arange(inputs.shape[1], device=device) > position.unsqueeze(1)
    regions = torch.cat([features_of(batch).regions for batch in spoken.batches])
    target = targets[image, position]
    return SaidWords(
        image=words.image[rows],
        regions=regions,
        baseline=regions.mean(0),
        read=inputs[image].masked_fill(later, PAD),
        position=position,
        target=target,
        maps=words.maps[rows],
        words=tuple(every_word[index] for index in target.tolist()),
    )


def _captioned(subject: Subject, progress: Progress | None) -> Subject:
    """The same images with the captions that the captioner says of them."""
    captioner, batches, done = subject.captioner, [], 0
    vocabulary = captioner.vocabulary
    for batch in subject.batches:
        found = captioner.search(features_of(batch), subject.search)
        encoded = [[vocabulary.encode(vocabulary.decode(best.words))] for best, *_ in found]
        batches.append(collate(batch.image_ids, features_of(batch), encoded).to(captioner.device))
        done += len(batch)
        if progress is not None:
            progress(done, subject.images)
    return Subject(captioner, subject.search, tuple(batches))


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """(b, 1, t) each -> (N, T), PAD where a part is shorter."""
    longest = max(part.shape[-1] for part in parts)
    return torch.cat([torch.nn.functional.pad(part[:, 0], (0, longest - part.shape[-1]), value=PAD) for part in parts])


@dataclass(frozen=True)
class WordProbability:
    """log p of given words as a function of the regions: what removal and gradients ask of a captioner."""

    captioner: Captioner
    rows: int
    columns: int

    def __call__(self, regions: Tensor, read: Tensor, position: Tensor, target: Tensor) -> Tensor:
        """Regions (B, R, D), what was read before (B, T), the words' places (B,) and the words (B,) -> (B,)."""
        longest = int(position.max()) + 1
        read = read[:, :longest]
        is_word = torch.arange(longest, device=read.device) <= position.unsqueeze(1)
        features = ImageFeatures(regions, self.rows, self.columns)
        reading = self.captioner.decoder(features, read.unsqueeze(1), is_word.unsqueeze(1))
        last = reading.words.time == position[reading.words.caption]
        caption = reading.words.caption[last]
        chosen = reading.logits[last].float().log_softmax(-1).gather(1, target[caption].unsqueeze(1)).squeeze(1)
        return torch.zeros_like(chosen).index_copy(0, caption, chosen)
