"""A caption set as whole batches, for torch's DataLoader."""

from collections.abc import Sequence

import numpy as np
from torch.utils.data import DataLoader, Dataset

from captioning.data.batch import CaptionBatch, collate
from captioning.data.records import CaptionedImage, CaptionSet
from captioning.data.sampler import BatchRequest, EvaluationSampler, TrainingSampler
from captioning.data.sources import Draws, Pictures
from captioning.text.vocabulary import Vocabulary


class CaptionDataset(Dataset[CaptionBatch]):
    """Batches of a caption set: `dataset[BatchRequest(images, epoch)]` reads all of their pictures at once.

    A batch depends on the request, the seed and the data alone, whichever process makes it.
    """

    def __init__(
        self,
        captions: CaptionSet,
        vocabulary: Vocabulary,
        pictures: Pictures,
        *,
        captions_per_image: int | None = None,
        seed: int = 0,
    ) -> None:
        """`captions_per_image`: at most that many of an image, drawn anew each epoch; None: all."""
        self.captions = captions
        self.pictures = pictures
        self.captions_per_image = captions_per_image
        self.seed = seed
        # Arrays, not lists: every worker would in time copy the millions of integers that lists hold.
        self._encoded = [
            [np.array(vocabulary.encode(vocabulary.tokenize(caption)), dtype=np.int32) for caption in record.captions]
            for record in captions.records
        ]

    def __len__(self) -> int:
        """Images."""
        return len(self.captions)

    @property
    def lengths(self) -> list[int]:
        """The longest caption of each image, START and END included."""
        return [max((len(caption) for caption in of_image), default=0) for of_image in self._encoded]

    def __getitem__(self, request: BatchRequest) -> CaptionBatch:
        return self.batch(request, [self.captions.records[image] for image in request.images])

    def batch(self, request: BatchRequest, records: Sequence[CaptionedImage]) -> CaptionBatch:
        """The batch of a request; `records` say where its pictures are read."""
        draws = self._draws(request)
        captions = [self._encoded[image] for image in request.images]
        if draws is not None:
            captions = [self._choose(of_image, draw) for of_image, draw in zip(captions, draws, strict=True)]
        return collate([record.image_id for record in records], self.pictures.read(records, draws), captions)

    def _draws(self, request: BatchRequest) -> Draws | None:
        if request.epoch is None:
            return None
        return [np.random.default_rng((self.seed, request.epoch, image)) for image in request.images]

    def _choose(self, captions: list[np.ndarray], draw: np.random.Generator) -> list[np.ndarray]:
        if self.captions_per_image is None or len(captions) <= self.captions_per_image:
            return captions
        chosen = draw.choice(len(captions), self.captions_per_image, replace=False)
        return [captions[place] for place in sorted(chosen)]


def make_loader(
    dataset: CaptionDataset,
    sampler: TrainingSampler | EvaluationSampler,
    *,
    workers: int = 0,
    pin_memory: bool = False,
) -> DataLoader[CaptionBatch]:
    """A loader whose every item is a whole `CaptionBatch`; the sampler, not the loader, makes the batches."""
    return DataLoader(
        dataset,
        sampler=sampler,
        batch_size=None,
        num_workers=workers,
        pin_memory=pin_memory,
        persistent_workers=workers > 0,
    )
