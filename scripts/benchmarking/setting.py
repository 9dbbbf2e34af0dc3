"""The sizes that both benchmarks share, and the models and batches of those sizes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from captioning.attention import Attention
from captioning.data.batch import CaptionBatch, collate
from captioning.decoders.output import DeepOutput
from captioning.decoders.show_attend_tell import ShowAttendTell
from captioning.features.image_features import ImageFeatures
from captioning.text.vocabulary import END, START, UNKNOWN
from tests.oracles.textbook_captioner import TextbookCaptioner


@dataclass(frozen=True)
class Setting:
    """One row of a table: 14 x 14 x 2048 features, widths of 512, 9,490 words, captions of 8 to 20 words."""

    label: str
    """As the table prints it."""
    images: int
    """Images in a batch."""
    captions: int = 1
    """Captions an image, or hypotheses an image."""
    rows: int = 14
    columns: int = 14
    region_width: int = 2048
    width: int = 512
    """Of words, state and attention space."""
    vocabulary_size: int = 9490
    shortest: int = 8
    longest: int = 20
    per_caption: bool = True
    """Whether one job is a caption (training) or an image (decoding)."""

    @property
    def regions(self) -> int:
        """Cells of the grid."""
        return self.rows * self.columns

    @property
    def jobs(self) -> int:
        """What throughput counts."""
        return self.images * self.captions if self.per_caption else self.images

    def batch(self) -> CaptionBatch:
        """Random features and captions; images with the longest captions first, as the sampler gives them."""
        generator = torch.Generator().manual_seed(1)
        shape = (self.images, self.captions)
        lengths = torch.randint(self.shortest, self.longest + 1, shape, generator=generator)
        lengths = lengths[lengths.amax(1).argsort(descending=True)]
        captions = [[_caption(n, self.vocabulary_size, generator) for n in row] for row in lengths.tolist()]
        return collate([str(image) for image in range(self.images)], self.features(generator), captions)

    def features(self, generator: torch.Generator) -> ImageFeatures:
        """Positive numbers, as after a ReLU."""
        shape = (self.images, self.regions, self.region_width)
        return ImageFeatures(torch.randn(shape, generator=generator).relu_(), self.rows, self.columns)

    def product(self) -> ShowAttendTell:
        """The paper's decoder: tanh scores, scalar gate, deep output."""
        torch.manual_seed(2)
        output = DeepOutput(
            vocabulary_size=self.vocabulary_size,
            word_width=self.width,
            state_width=self.width,
            region_width=self.region_width,
        )
        return ShowAttendTell(
            attention=Attention(query_width=self.width, key_width=self.region_width, width=self.width),
            embedding=nn.Embedding(self.vocabulary_size, self.width),
            output=output,
            state_width=self.width,
            region_width=self.region_width,
        )

    def twin(self) -> TextbookCaptioner:
        """The same sizes as the widely copied port has them."""
        torch.manual_seed(2)
        return TextbookCaptioner(
            vocabulary_size=self.vocabulary_size,
            region_width=self.region_width,
            word_width=self.width,
            state_width=self.width,
            attention_width=self.width,
        )


def _caption(length: int, vocabulary_size: int, generator: torch.Generator) -> list[int]:
    words: Tensor = torch.randint(UNKNOWN + 1, vocabulary_size, (length,), generator=generator)
    return [START, *words.tolist(), END]
