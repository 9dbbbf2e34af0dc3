"""Encoder and decoder as one model: pictures in, captions with their maps out."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn

from captioning.captioner.caption import Caption, Said, view_of
from captioning.captioner.constraints import constraints_of
from captioning.captioner.pictures import PictureCaptioner, Prepared
from captioning.captioner.step import DecoderStep
from captioning.data.batch import CaptionBatch, collate
from captioning.decoders.decoder import Decoder
from captioning.decoders.rule import looking_by
from captioning.decoding.methods import search_captions
from captioning.decoding.search import Search
from captioning.decoding.step import Hypothesis
from captioning.decoding.trace import WEIGHTS
from captioning.encoders.grid import GridEncoder
from captioning.encoders.small import CellEncoder
from captioning.features.geometry import Placement
from captioning.features.image_features import ImageFeatures
from captioning.features.preprocessing import Preprocessing
from captioning.text.vocabulary import START, Vocabulary

Encoder = GridEncoder | CellEncoder


class Captioner(nn.Module, PictureCaptioner):
    """A trained (or fresh) captioner. `caption`, `n_best` and `score` are what its users call."""

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

    @property
    def preprocessings(self) -> Sequence[Preprocessing]:
        """How it wants a picture."""
        return [self.encoder.preprocessing]

    def features(self, batch: CaptionBatch) -> ImageFeatures:
        """The batch's features: by the encoder, or by the part of it that learns from what a store kept."""
        if batch.features is None:
            features: ImageFeatures = self.encoder(batch.pixels)
            return features
        return self.encoder.tuned_part(batch.features) if isinstance(self.encoder, GridEncoder) else batch.features

    def encode(self, pixels: Tensor) -> ImageFeatures:
        """The features of pictures (B, 3, size, size); in evaluation mode, without gradients."""
        with torch.no_grad(), evaluation_mode(self):
            features: ImageFeatures = self.encoder(pixels.to(self.device))
            return features

    def search(self, features: ImageFeatures, search: Search) -> list[list[Hypothesis]]:
        """The captions of each image, best first; in evaluation mode, without gradients."""
        start = torch.full((len(features),), START, device=features.regions.device)
        constraints = constraints_of(search, self.vocabulary)
        with torch.no_grad(), evaluation_mode(self), self.looking(search):
            step = DecoderStep(self.decoder, features)
            return search_captions(step, start=start, constraints=constraints, search=search)

    def to_caption(self, hypothesis: Hypothesis, features: ImageFeatures, placement: Placement) -> Caption:
        """A search's result in words and maps."""
        reported = {WEIGHTS: hypothesis.weights, **hypothesis.details}
        return in_words(hypothesis, self.vocabulary).seen(view_of(reported, features, placement))

    def looking(self, search: Search) -> AbstractContextManager[None]:
        """Inside, the decoder sees of the regions what the search's test-time rule says."""
        return looking_by(self.decoder, search.test_time_rule, search.rule_samples)

    def caption_batch(self, batch: Sequence[Prepared], search: Search) -> list[list[Caption]]:
        """As for all; the batch of the one model."""
        pixels, placements = batch[0]
        features = self.encode(pixels)
        return [
            [self.to_caption(hypothesis, features, placement) for hypothesis in hypotheses]
            for hypotheses, placement in zip(self.search(features, search), placements, strict=True)
        ]

    def score_batch(self, batch: Sequence[Prepared], captions: Sequence[str], search: Search) -> list[Caption]:
        """As for all."""
        pixels, placements = batch[0]
        cut = [self.vocabulary.tokenize(caption) for caption in captions]
        ids = [str(number) for number in range(len(captions))]
        given = collate(ids, pixels, [[self.vocabulary.encode(words)] for words in cut]).to(self.device)
        with torch.no_grad(), evaluation_mode(self), self.looking(search):
            features = self.features(given)
            reading = self.decoder(features, given.inputs, given.is_word)
        chosen = reading.words.pack(given.targets).unsqueeze(1)
        log_probabilities = reading.logits.float().log_softmax(-1).gather(1, chosen).squeeze(1)
        by_caption = reading.words.unpack(log_probabilities)[:, 0].cpu()
        reported = {
            name: reading.words.unpack(values)[:, 0]
            for name, values in {WEIGHTS: reading.weights, **reading.details}.items()
        }
        scored = []
        for image, words in enumerate(cut):
            of_words = tuple(by_caption[image, : len(words) + 1].tolist())
            own = {name: values[image, : len(words)] for name, values in reported.items()}
            said = Said(captions[image], tuple(words), of_words, score=sum(of_words), finished=True)
            scored.append(said.seen(view_of(own, features, placements[image])))
        return scored


def in_words(hypothesis: Hypothesis, vocabulary: Vocabulary) -> Said:
    """A search's result without where the model looked."""
    words = tuple(vocabulary.decode(hypothesis.words))
    return Said(vocabulary.join(words), words, hypothesis.log_probabilities, hypothesis.score, hypothesis.finished)


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
