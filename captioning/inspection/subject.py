"""What is inspected: a captioner, some captioned images as it sees them, and how it reads their captions."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from captioning.attention import Attention
from captioning.captioner import Captioner, evaluation_mode
from captioning.data.batch import CaptionBatch
from captioning.data.dataset import CaptionDataset, make_loader
from captioning.data.records import CaptionSet
from captioning.data.sampler import EvaluationSampler
from captioning.data.sources import Pictures
from captioning.decoders.adaptive import SENTINEL
from captioning.decoders.decoder import Decoder
from captioning.decoders.given_maps import read_with_own_maps, shown_maps
from captioning.decoders.show_attend_tell import GATE
from captioning.decoders.transformer import TransformerDecoder
from captioning.decoding.search import Search
from captioning.errors import ConfigError, DataError
from captioning.features.image_features import ImageFeatures
from captioning.text.vocabulary import END

Progress = Callable[[int, int], None]
NUMBERS = (GATE, SENTINEL)
"""Details that are one number a word, and are measured with the maps."""


@dataclass(frozen=True)
class Subject:
    """A captioner with attention, and N captioned images."""

    captioner: Captioner
    search: Search
    """How it captions; its test-time rule holds wherever it reads."""
    batches: tuple[CaptionBatch, ...]
    """The images as features, with their captions."""

    @property
    def images(self) -> int:
        """N."""
        return sum(len(batch) for batch in self.batches)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the maps."""
        features = features_of(self.batches[0])
        return features.rows, features.columns

    @contextmanager
    def reading(self) -> Iterator[Decoder]:
        """The decoder as it reads at test time, without gradients."""
        with torch.no_grad(), self.at_test_time():
            yield self.captioner.decoder

    @contextmanager
    def at_test_time(self) -> Iterator[None]:
        """In evaluation mode and by the test-time rule."""
        with evaluation_mode(self.captioner), self.captioner.looking(self.search):
            yield


@dataclass(frozen=True)
class Words:
    """n words that a captioner has read, END being one; rows follow the batches."""

    image: np.ndarray
    """(n,) which of the N images."""
    caption: np.ndarray
    """(n,) which of all captions."""
    position: np.ndarray
    """(n,) place in its caption, from 0."""
    is_end: np.ndarray
    """(n,) whether it is END, of which no map is ever shown."""
    log_probability: np.ndarray
    """(n,) of the word, given the true words before it."""
    looks: Tensor
    """(n, L, R) see `decoders.given_maps`; each sums to one."""
    maps: np.ndarray
    """(n, R) the map that is shown, summing to one."""
    numbers: Mapping[str, np.ndarray]
    """(n,) each: `gate` and `sentinel`, where the decoder has one."""

    def __len__(self) -> int:
        return len(self.image)

    def take(self, rows: np.ndarray) -> "Words":
        """Some of them."""
        values = {name: getattr(self, name)[rows] for name in _ROWS}
        looks = self.looks[torch.from_numpy(np.arange(len(self))[rows])]
        return Words(**values, looks=looks, numbers={name: each[rows] for name, each in self.numbers.items()})


_ROWS = ("image", "caption", "position", "is_end", "log_probability", "maps")


def prepare(
    captioner: Captioner,
    captions: CaptionSet,
    pictures: Pictures,
    *,
    search: Search | None = None,
    batch_size: int = 32,
    progress: Progress | None = None,
) -> Subject:
    """Look at every image once. Raises ConfigError for a decoder without attention, DataError for a single image."""
    check_has_maps(captioner.decoder)
    if len(captions) < 2:
        raise DataError(
            f"inspect: expected at least 2 images, to compare maps of one with another's, got {len(captions)}"
        )
    dataset = CaptionDataset(captions, captioner.vocabulary, pictures)
    loader = make_loader(dataset, EvaluationSampler(len(dataset), batch_size=batch_size))
    batches = []
    with torch.no_grad(), evaluation_mode(captioner):
        for batch in loader:
            on_device = batch.to(captioner.device)
            batches.append(replace(on_device, features=captioner.features(on_device), pixels=None))
            if progress is not None:
                progress(sum(map(len, batches)), len(dataset))
    return Subject(captioner, search or captioner.default_search, tuple(batches))


def check_has_maps(decoder: Decoder) -> None:
    """Raises ConfigError for a control that shows the same mean region at every word."""
    if not isinstance(decoder, TransformerDecoder) and not isinstance(getattr(decoder, "attention", None), Attention):
        raise ConfigError(
            "inspect: expected a decoder with attention, got mean_pool, which is shown the mean region at every word: "
            "its map is even whatever it says, so there is nothing to inspect; give another model"
        )


def choose_images(captions: CaptionSet, most: int, *, seed: int) -> CaptionSet:
    """All images, or `most` of them drawn at random, in their order."""
    if len(captions) <= most:
        return captions
    chosen = np.sort(np.random.default_rng(seed).choice(len(captions), most, replace=False))
    return replace(captions, records=tuple(captions.records[place] for place in chosen))


def read_words(subject: Subject, progress: Progress | None = None) -> Words:
    """Every caption read with the captioner's own maps."""
    parts: list[Words] = []
    images = captions = 0
    for batch in subject.batches:
        read = _read_batch(subject, batch)
        parts.append(replace(read, image=read.image + images, caption=read.caption + captions))
        images += len(batch)
        captions += len(batch) * batch.words.shape[1]
        if progress is not None:
            progress(images, subject.images)
    numbers = {name: np.concatenate([part.numbers[name] for part in parts]) for name in parts[0].numbers}
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ROWS}
    return Words(**joined, looks=torch.cat([part.looks for part in parts]), numbers=numbers)


def _read_batch(subject: Subject, batch: CaptionBatch) -> Words:
    with subject.reading() as decoder:
        reading, looks = read_with_own_maps(decoder, features_of(batch), batch.inputs, batch.is_word)
    targets = reading.words.pack(batch.targets)
    caption = reading.words.caption.cpu().numpy()
    return Words(
        image=caption // batch.words.shape[1],
        caption=caption,
        position=reading.words.time.cpu().numpy(),
        is_end=(targets == END).cpu().numpy(),
        log_probability=log_probabilities(reading.logits, targets),
        looks=looks.float().cpu(),
        maps=shown_maps(subject.captioner.decoder, looks).double().cpu().numpy(),
        numbers={name: reading.details[name].double().cpu().numpy() for name in NUMBERS if name in reading.details},
    )


def log_probabilities(logits: Tensor, targets: Tensor) -> np.ndarray:
    """(n, V) and (n,) -> (n,)."""
    chosen = logits.float().log_softmax(-1).gather(1, targets.unsqueeze(1)).squeeze(1)
    return chosen.double().cpu().numpy()


def features_of(batch: CaptionBatch) -> ImageFeatures:
    """Those of a prepared batch."""
    assert batch.features is not None
    return batch.features
