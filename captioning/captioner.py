"""Encoder and decoder as one model: pictures in, captions with their maps out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from captioning.data.batch import CaptionBatch, collate
from captioning.data.images import ImageSource, load_image
from captioning.data.transforms import ImageTransform
from captioning.decoders.decoder import HEADS, Decoder, Memory
from captioning.decoders.rule import looking_by
from captioning.decoding.beam import beam_search
from captioning.decoding.search import Search
from captioning.decoding.step import Hypothesis, StepOutput
from captioning.decoding.trace import WEIGHTS
from captioning.encoders.grid import GridEncoder
from captioning.encoders.small import CellEncoder
from captioning.errors import DataError
from captioning.features.geometry import Placement
from captioning.features.image_features import ImageFeatures
from captioning.text.vocabulary import END, PAD, START, UNKNOWN, Vocabulary

Encoder = GridEncoder | CellEncoder
FORBIDDEN = (PAD, START, UNKNOWN)


@dataclass(frozen=True, eq=False)
class Caption:
    """A caption and where the model looked for each of its words."""

    text: str
    """The words, as one prints them; of a caption that was handed in, the caption itself."""
    words: tuple[str, ...]
    """T words."""
    log_probabilities: tuple[float, ...]
    """One a word, and the end token's after them if the caption is finished."""
    maps: np.ndarray
    """(T, rows, columns) attention weights of each word over the grid; a weight is no explanation of a word."""
    placement: Placement
    """Where the grid lies in the upright original picture."""
    score: float
    """What the search ranked by, or the sum of the log-probabilities of a given caption."""
    finished: bool
    """Whether the model ended the caption; False: it was cut off."""
    details: Mapping[str, np.ndarray] = field(default_factory=dict)
    """(T, ...) what else the decoder reports of each word: `sentinel` (T,), the weight that `adaptive` gives to what it
    knows without looking; `heads` (T, Hn, rows, columns), the maps of a transformer's heads; `cell` (T,), the
    one cell that a hard choice showed."""


class StepState(NamedTuple):
    """What a search hands back and forth: the images' memory and the hypotheses' state."""

    memory: Memory
    state: Any


@dataclass(frozen=True)
class DecoderStep:
    """A decoder and the features of B images as the `Step` that searches ask for."""

    decoder: Decoder
    features: ImageFeatures = field(repr=False)

    def start(self) -> StepState:
        """One hypothesis an image."""
        return StepState(*self.decoder.start(self.features))

    def advance(self, state: StepState, words: Tensor) -> StepOutput[StepState]:
        """Words (B, K) -> log-probabilities (B, K, V), weights (B, K, R)."""
        said = self.decoder.advance(state.memory, state.state, words)
        return StepOutput(StepState(state.memory, said.state), *said[1:])

    def reorder(self, state: StepState, parents: Tensor) -> StepState:
        """Row k of image b becomes the old row parents[b, k]; the memory stays."""
        return StepState(state.memory, state.state.reorder(parents))

    def select(self, state: StepState, images: Tensor) -> StepState:
        """These images only."""
        return StepState(state.memory.select(images), state.state.select(images))


class Captioner(nn.Module):
    """A trained (or fresh) captioner. `caption` and `score` are what its users call."""

    def __init__(
        self,
        *,
        encoder: Encoder,
        decoder: Decoder,
        vocabulary: Vocabulary,
        default_search: Search | None = None,
    ) -> None:
        super().__init__()
        self.default_search = default_search or Search()
        self.encoder = encoder
        self.decoder = decoder
        self.vocabulary = vocabulary

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    def features(self, batch: CaptionBatch) -> ImageFeatures:
        """The batch's features: by the encoder, or by the part of it that learns from what a store kept."""
        if batch.features is None:
            features: ImageFeatures = self.encoder(batch.pixels)
            return features
        return self.encoder.tuned_part(batch.features) if isinstance(self.encoder, GridEncoder) else batch.features

    def search(self, features: ImageFeatures, search: Search) -> list[list[Hypothesis]]:
        """The captions of each image, best first; in evaluation mode, without gradients."""
        start = torch.full((len(features),), START, device=features.regions.device)
        with torch.no_grad(), evaluation_mode(self), self.looking(search):
            return beam_search(
                DecoderStep(self.decoder, features),
                start=start,
                end=END,
                beam_size=search.beam_size,
                maximum_length=search.maximum_length,
                minimum_length=search.minimum_length,
                ranking=search.ranking,
                forbidden=FORBIDDEN,
            )

    def caption(
        self,
        images: Iterable[ImageSource],
        *,
        beam_size: int | None = None,
        search: Search | None = None,
        batch_size: int = 16,
    ) -> list[Caption]:
        """The best caption of each image. Images are paths, bytes or Pillow pictures.

        `search` defaults to the one stored with the model; `beam_size` alone changes that one setting.
        Raises ImageError for a picture that can't be read, ConfigError for a search that can't be.
        """
        search = (search or self.default_search).changed(beam_size=beam_size)
        captions: list[Caption] = []
        for pixels, placements in self._batches(images, batch_size):
            features = self._encode(pixels)
            for hypotheses, placement in zip(self.search(features, search), placements, strict=True):
                captions.append(self.to_caption(hypotheses[0], features, placement))
        return captions

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
        for pixels, placements in self._batches(images, batch_size):
            chunk = captions[len(scored) : len(scored) + len(placements)]
            with self.looking(search or self.default_search):
                scored += self._score_batch(pixels, placements, chunk)
        return scored

    def to_caption(self, hypothesis: Hypothesis, features: ImageFeatures, placement: Placement) -> Caption:
        """A search's result in words and maps."""
        words = tuple(self.vocabulary.decode(hypothesis.words))
        return Caption(
            text=self.vocabulary.join(words),
            words=words,
            log_probabilities=hypothesis.log_probabilities,
            maps=_on_grid(hypothesis.weights, features),
            placement=placement,
            score=hypothesis.score,
            finished=hypothesis.finished,
            details=_arrays(hypothesis.details, features),
        )

    def _score_batch(self, pixels: Tensor, placements: Sequence[Placement], captions: Sequence[str]) -> list[Caption]:
        cut = [self.vocabulary.tokenize(caption) for caption in captions]
        ids = [str(number) for number in range(len(captions))]
        batch = collate(ids, pixels, [[self.vocabulary.encode(words)] for words in cut])
        batch = batch.to(self.device)
        with torch.no_grad(), evaluation_mode(self):
            features = self.features(batch)
            reading = self.decoder(features, batch.inputs, batch.is_word)
        chosen = reading.words.pack(batch.targets).unsqueeze(1)
        log_probabilities = reading.logits.float().log_softmax(-1).gather(1, chosen).squeeze(1)
        by_caption = reading.words.unpack(log_probabilities)[:, 0].cpu()
        reported = {
            name: reading.words.unpack(values)[:, 0]
            for name, values in {WEIGHTS: reading.weights, **reading.details}.items()
        }
        scored = []
        for image, words in enumerate(cut):
            of_words = tuple(by_caption[image, : len(words) + 1].tolist())
            details = {name: values[image, : len(words)] for name, values in reported.items()}
            scored.append(
                Caption(
                    text=captions[image],
                    words=tuple(words),
                    log_probabilities=of_words,
                    maps=_on_grid(details.pop(WEIGHTS), features),
                    placement=placements[image],
                    score=sum(of_words),
                    finished=True,
                    details=_arrays(details, features),
                )
            )
        return scored

    def looking(self, search: Search) -> AbstractContextManager[None]:
        """Inside, the decoder sees of the regions what the search's test-time rule says."""
        return looking_by(self.decoder, search.test_time_rule, search.rule_samples)

    def _encode(self, pixels: Tensor) -> ImageFeatures:
        with torch.no_grad(), evaluation_mode(self):
            return self.encoder(pixels.to(self.device))

    def _batches(self, images: Iterable[ImageSource], size: int) -> Iterator[tuple[Tensor, list[Placement]]]:
        transform = ImageTransform(self.encoder.preprocessing)
        waiting: list[tuple[Tensor, Placement]] = []
        for image in images:
            waiting.append(transform(load_image(image)))
            if len(waiting) == size:
                yield _stack(waiting)
                waiting = []
        if waiting:
            yield _stack(waiting)


def _stack(pictures: Sequence[tuple[Tensor, Placement]]) -> tuple[Tensor, list[Placement]]:
    return torch.stack([pixels for pixels, _ in pictures]), [placement for _, placement in pictures]


def _on_grid(weights: Tensor, features: ImageFeatures) -> np.ndarray:
    """(..., R) -> (..., rows, columns)."""
    return weights.float().unflatten(-1, (features.rows, features.columns)).cpu().numpy()


def _arrays(details: Mapping[str, Tensor], features: ImageFeatures) -> dict[str, np.ndarray]:
    return {
        name: _on_grid(values, features) if name == HEADS else values.float().cpu().numpy()
        for name, values in details.items()
    }


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside, and each part's own mode again after."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
