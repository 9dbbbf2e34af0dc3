"""What one calls with pictures: the same for one captioner and for several as one."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from captioning.captioner.caption import Caption
from captioning.data.images import ImageSource, load_image
from captioning.data.transforms import ImageTransform
from captioning.decoding.search import Search
from captioning.errors import ConfigError, DataError
from captioning.features.geometry import Placement
from captioning.features.preprocessing import Preprocessing
from captioning.text.vocabulary import Vocabulary


class Prepared(NamedTuple):
    """A batch of B pictures as one model's input."""

    pixels: Tensor
    """(B, 3, size, size)."""
    placements: list[Placement]
    """Where each lies in its picture."""


class PictureCaptioner(ABC):
    """Captions pictures, and scores captions that one hands in."""

    default_search: Search
    """How captions are searched where a call does not say otherwise."""
    vocabulary: Vocabulary
    """What can be said."""

    def caption(
        self,
        images: Iterable[ImageSource],
        *,
        search: Search | None = None,
        seed: int | None = None,
        batch_size: int = 16,
        **settings: Any,
    ) -> list[Caption]:
        """The best caption of each image. Images are paths, bytes or Pillow pictures.

        `search` defaults to the one stored with the model; `settings` are fields of `Search` that are changed for this
        call, such as `beam_size=3`, or `method="sampling", samples=20, top_p=0.9`. seed: of what is drawn at random
        (samples, and cells by a random test-time rule); None: go on with torch's generator.

        Raises ImageError for a picture that can't be read, ConfigError for a search that can't be.
        """
        every = self.n_best(images, 1, search=search, seed=seed, batch_size=batch_size, **settings)
        return [captions[0] for captions in every]

    def n_best(
        self,
        images: Iterable[ImageSource],
        n: int | None = None,
        *,
        search: Search | None = None,
        seed: int | None = None,
        batch_size: int = 16,
        **settings: Any,
    ) -> list[list[Caption]]:
        """Of each image up to `n` captions, best first; None: all that the search ends with.

        Those are at most `beam_size` captions of a beam, all groups' of a diverse one, all `samples` of sampling (among
        them the same one twice, if it was drawn twice), one of a greedy search. Arguments else as in `caption`.
        """
        if n is not None and n < 1:
            raise ConfigError(f"n: expected at least 1 caption an image, got {n}")
        search = (search or self.default_search).changed(**settings)
        found: list[list[Caption]] = []
        with seeded(seed, self.device):
            for batch in self._batches(images, batch_size):
                found += [captions[:n] for captions in self.caption_batch(batch, search)]
        return found

    def score(
        self,
        images: Sequence[ImageSource],
        captions: Sequence[str],
        *,
        search: Search | None = None,
        batch_size: int = 16,
    ) -> list[Caption]:
        """The given captions, one an image, as the model reads them: log-probabilities and maps of their words.

        Of `search` (default: the one stored with the model) only the test-time rule matters.

        A word outside the vocabulary is read as the unknown word, and its log-probability is that of the unknown
        word. Raises DataError where the numbers differ or a caption has no word.
        """
        if len(images) != len(captions):
            raise DataError(f"captions: expected one for each of {len(images)} images, got {len(captions)}")
        for caption in captions:
            if not self.vocabulary.tokenize(caption):
                raise DataError(f"caption {caption!r}: expected at least one word, got none")
        scored: list[Caption] = []
        for batch in self._batches(images, batch_size):
            chunk = captions[len(scored) : len(scored) + len(batch[0].placements)]
            scored += self.score_batch(batch, chunk, search or self.default_search)
        return scored

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where the parameters are."""

    @property
    @abstractmethod
    def preprocessings(self) -> Sequence[Preprocessing]:
        """How each model of it wants a picture."""

    @abstractmethod
    def caption_batch(self, batch: Sequence[Prepared], search: Search) -> list[list[Caption]]:
        """The captions of each picture, best first; the batch as each model wants it."""

    @abstractmethod
    def score_batch(self, batch: Sequence[Prepared], captions: Sequence[str], search: Search) -> list[Caption]:
        """These captions, one a picture, as each model reads them."""

    def _batches(self, images: Iterable[ImageSource], size: int) -> Iterator[list[Prepared]]:
        transforms = [ImageTransform(preprocessing) for preprocessing in self.preprocessings]
        waiting: list[list[tuple[Tensor, Placement]]] = []
        for source in images:
            image = load_image(source)
            waiting.append([transform(image) for transform in transforms])
            if len(waiting) == size:
                yield _stack(waiting)
                waiting = []
        if waiting:
            yield _stack(waiting)


def _stack(pictures: Sequence[Sequence[tuple[Tensor, Placement]]]) -> list[Prepared]:
    by_model = zip(*pictures, strict=True)
    return [
        Prepared(torch.stack([pixels for pixels, _ in each]), [placement for _, placement in each]) for each in by_model
    ]


@contextmanager
def seeded(seed: int | None, device: torch.device) -> Iterator[None]:
    """Inside, torch's generators start from this seed; after, they go on as if nothing had been. None: nothing."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
