"""What training optimizes, as sums over a batch and the counts that they are divided by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from captioning.captioner import Captioner
from captioning.data.batch import CaptionBatch
from captioning.decoders.reading import Reading
from captioning.decoders.scheduled_sampling import ScheduledSampling
from captioning.errors import ConfigError
from captioning.features.image_features import ImageFeatures
from captioning.training.losses import doubly_stochastic_penalty, word_loss

REDUCTIONS = ("caption_mean", "token_mean")
PENALTY_REDUCTIONS = ("sum", "mean", "released")


@dataclass(frozen=True)
class Loss:
    """The sums over one batch."""

    total: Tensor
    """() what is differentiated: divided by `count` of the whole optimizer step it is the objective."""
    count: int
    """Captions of the batch, or its words with `token_mean`."""
    nats: float
    """Sum of −log p(word) over real words, without smoothing."""
    penalty: float
    """Sum of the doubly stochastic penalty over captions, before its weight."""
    words: int
    """Real words, END included."""
    captions: int
    """Captions."""
    reading: Reading
    """Of the true captions, whose maps the log describes."""
    reported: Mapping[str, float] = field(default_factory=dict)
    """What else the log keeps of the batch, by name."""


class Objective(Protocol):
    """What training asks of an objective."""

    def __call__(self, reading: Reading, batch: CaptionBatch, features: ImageFeatures) -> Loss:
        """The loss of true captions that a decoder read, as validation reports it."""

    def training_loss(
        self,
        captioner: Captioner,
        batch: CaptionBatch,
        features: ImageFeatures,
        sampling: ScheduledSampling | None = None,
    ) -> Loss:
        """The loss that is differentiated; the captioner reads, or says, what is needed for it."""


class OfTrueCaptions:
    """An objective that is the loss of the true captions, each read `samples` times."""

    samples = 1

    def __call__(self, reading: Reading, batch: CaptionBatch, features: ImageFeatures) -> Loss:
        """The loss of what a decoder read."""
        raise NotImplementedError

    def training_loss(
        self,
        captioner: Captioner,
        batch: CaptionBatch,
        features: ImageFeatures,
        sampling: ScheduledSampling | None = None,
    ) -> Loss:
        """As for all objectives."""
        read = batch.repeated(self.samples)
        reading = captioner.decoder(features, read.inputs, read.is_word, sampling)
        return self(reading, read, features)


@dataclass(frozen=True)
class CrossEntropy(OfTrueCaptions):
    """−log p(y | image) + λ Σ_i (1 − Σ_t α_ti)², the soft model's loss (Xu et al., eq. 14)."""

    label_smoothing: float = 0.0
    """ε of the target's probability that is spread evenly over the vocabulary."""
    penalty_weight: float = 1.0
    """λ, on the scale of a caption's summed loss."""
    penalty_reduction: str = "sum"
    """sum over regions (the paper), mean over regions (the widely copied port), released (batch sum over R)."""
    loss_reduction: str = "caption_mean"
    """caption_mean: sum of words ÷ captions of the step; token_mean: sum of words ÷ words of the step."""
    samples = 1

    def __post_init__(self) -> None:
        if self.penalty_reduction not in PENALTY_REDUCTIONS:
            expected = ", ".join(PENALTY_REDUCTIONS)
            raise ConfigError(f"penalty_reduction: expected one of {expected}, got {self.penalty_reduction!r}")
        if self.loss_reduction not in REDUCTIONS:
            raise ConfigError(f"loss_reduction: expected one of {', '.join(REDUCTIONS)}, got {self.loss_reduction!r}")

    def __call__(self, reading: Reading, batch: CaptionBatch, features: ImageFeatures) -> Loss:
        """The loss of what a decoder read."""
        targets = reading.words.pack(batch.targets)
        words, captions = len(targets), batch.captions
        said = word_loss(reading.logits, targets, smoothing=self.label_smoothing)
        coverage = reading.words.sum_over_time(reading.weights)
        penalty = doubly_stochastic_penalty(coverage, batch.is_word.any(-1), mask=features.mask)
        scale = self._penalty_scale(captions, words, regions=coverage.shape[-1])
        total = said.smoothed + self.penalty_weight * scale * penalty
        count = captions if self.loss_reduction == "caption_mean" else words
        return Loss(total, count, said.nats.item(), penalty.item(), words, captions, reading)

    def _penalty_scale(self, captions: int, words: int, *, regions: int) -> float:
        """What the penalty's sum is multiplied by, so that dividing by `count` gives the stated reduction.

        With token_mean the penalty is still a mean over captions; parts of an accumulated step are then weighed by
        their share of the words.
        """
        per_caption = {"sum": 1.0, "mean": 1 / regions, "released": captions / regions}[self.penalty_reduction]
        return per_caption if self.loss_reduction == "caption_mean" else per_caption * words / max(captions, 1)
