"""Hard attention by REINFORCE (Xu et al., 2015, section 4.1): the loss of a caption whose regions were sampled."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from captioning.attention.attention import named
from captioning.captioner import Captioner
from captioning.data.batch import CaptionBatch
from captioning.decoders.reading import Reading
from captioning.decoders.recurrent import ENTROPY, LOG_PROBABILITY, QUERY, SAMPLED
from captioning.decoders.rule import looking_by
from captioning.decoders.scheduled_sampling import ScheduledSampling
from captioning.errors import ConfigError
from captioning.estimators import RETURNS, Evidence, entropy_terms, score_function
from captioning.estimators.baselines import Baseline, LeaveOneOut, MovingAverage, SoftPass
from captioning.features.image_features import ImageFeatures
from captioning.tensors.precision import at_least_float32
from captioning.training.objectives import CrossEntropy, Loss, OfTrueCaptions

BASELINE_SHARE = 0.01
"""Weight of a learned baseline's own loss: its squares must not fill the norm that gradients are clipped to; Adam's
steps do not hang on it."""


class HardAttention(nn.Module, OfTrueCaptions):
    """−log p(y | s) − λ_r Σ_t (G_t − b_t) log π(s_t) − λ_e Σ_t H_t, along the sampled regions s.

    The reward is the optimized loss of the words, negative, END included; so with λ_r = 1 the expected gradient is
    exactly that of the mean loss over all samplings. `words` is the loss of the words, and says what all sums are
    divided by. `samples` is how often each caption is read, with other regions each time.

    In validation the loss is that of the words alone, and so it is for an image whose coin fell on soft.
    """

    def __init__(
        self,
        words: CrossEntropy,
        *,
        reward_weight: float = 1.0,
        entropy_weight: float = 0.0,
        entropy: Literal["pathwise", "exact"] = "pathwise",
        returns: str = "to_go",
        baseline: Baseline | None = None,
        samples: int = 1,
    ) -> None:
        """`baseline`: one of `captioning.estimators.BASELINES`; default is the paper's, a moving average."""
        super().__init__()
        self.baseline = MovingAverage() if baseline is None else baseline
        if samples < 1 or (isinstance(self.baseline, LeaveOneOut) and samples < 2):
            raise ConfigError(f"objective.samples: expected at least 1, and 2 for leave_one_out, got {samples}")
        self.words, self.samples = words, samples
        self.reward_weight, self.entropy_weight, self.entropy = reward_weight, entropy_weight, entropy
        self.returns = named("objective.returns", returns, RETURNS)

    def training_loss(
        self,
        captioner: Captioner,
        batch: CaptionBatch,
        features: ImageFeatures,
        sampling: ScheduledSampling | None = None,
    ) -> Loss:
        """As for all objectives; for `soft_pass` the captions are read a second time, softly and without gradient."""
        read = batch.repeated(self.samples)
        reading = captioner.decoder(features, read.inputs, read.is_word, sampling)
        soft = None
        if isinstance(self.baseline, SoftPass):
            with torch.no_grad(), looking_by(captioner.decoder, "expected", 1):
                soft = captioner.decoder(features, read.inputs, read.is_word)
        return self(reading, read, features, soft)

    def forward(
        self, reading: Reading, batch: CaptionBatch, features: ImageFeatures, soft: Reading | None = None
    ) -> Loss:
        """The loss of what a decoder read; moves the baseline afterwards, in training."""
        said = self.words(reading, batch, features)
        if LOG_PROBABILITY not in reading.details:
            if not self.training:
                return said
            raise ConfigError(
                "objective hard: expected a decoder that samples regions, got one that reports no choices; "
                "take show_attend_tell, top_down or adaptive with selection hard or mixed"
            )
        return replace(said, total=said.total + self._of_choices(reading, batch, soft))

    def _of_choices(self, reading: Reading, batch: CaptionBatch, soft: Reading | None) -> Tensor:
        """() what the choices add to the words' loss."""
        unpack = reading.words.unpack
        log_probabilities, entropies = (unpack(reading.details[name]) for name in (LOG_PROBABILITY, ENTROPY))
        exists = batch.is_word[..., : entropies.shape[-1]]
        terms = entropy_terms(entropies, exists, weight=self.entropy_weight, kind=self.entropy)
        rewards = unpack(self._rewards(reading, batch))
        returns = self.returns(rewards if terms.rewards is None else rewards + terms.rewards, exists)
        by_sample, there = self._by_sample(returns), self._by_sample(exists)
        evidence = Evidence(
            self._by_sample(unpack(reading.details[QUERY])),
            None if soft is None else self._by_sample(self.returns(unpack(self._rewards(soft, batch)), exists)),
        )
        baseline = self.baseline(by_sample, there, evidence).expand_as(by_sample).flatten(1, 2)
        surrogate = score_function(log_probabilities, returns, baseline, exists).sum()
        # The returns of an image that was read softly are no sample's.
        sampled = there & self._by_sample(unpack(reading.details[SAMPLED]))
        learning = self.baseline.loss(by_sample, sampled, evidence)
        if self.training:
            self.baseline.update(by_sample, sampled)
        return self.reward_weight * surrogate + terms.loss.sum() + BASELINE_SHARE * learning

    def _by_sample(self, values: Tensor) -> Tensor:
        """(B, captions · samples, ...) -> (B, captions, samples, ...)."""
        return values.unflatten(1, (-1, self.samples))

    @torch.no_grad()
    def _rewards(self, reading: Reading, batch: CaptionBatch) -> Tensor:
        """(n,) minus the loss of each word."""
        targets = reading.words.pack(batch.targets)
        smoothing = self.words.label_smoothing
        logits = at_least_float32(reading.logits)
        return -F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
