"""Hard attention by REINFORCE (Xu et al., 2015, section 4.1): the loss of a caption whose regions were sampled."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from captioning.attention.attention import named
from captioning.data.batch import CaptionBatch
from captioning.decoders.reading import Reading
from captioning.decoders.recurrent import ENTROPY, LOG_PROBABILITY, SAMPLED
from captioning.errors import ConfigError
from captioning.estimators import BASELINES, RETURNS, entropy_terms, score_function
from captioning.features.image_features import ImageFeatures
from captioning.training.objectives import CrossEntropy, Loss


class HardAttention(nn.Module):
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
        baseline: str = "moving_average",
        samples: int = 1,
    ) -> None:
        super().__init__()
        if samples < 1 or (baseline == "leave_one_out" and samples < 2):
            raise ConfigError(f"objective.samples: expected at least 1, and 2 for leave_one_out, got {samples}")
        self.words, self.samples = words, samples
        self.reward_weight, self.entropy_weight, self.entropy = reward_weight, entropy_weight, entropy
        self.returns = named("objective.returns", returns, RETURNS)
        self.baseline = named("objective.baseline", baseline, BASELINES)()

    def forward(self, reading: Reading, batch: CaptionBatch, features: ImageFeatures) -> Loss:
        """The loss of what a decoder read; moves the baseline afterwards, in training."""
        said = self.words(reading, batch, features)
        if LOG_PROBABILITY not in reading.details:
            if not self.training:
                return said
            raise ConfigError(
                "objective hard: expected a decoder that samples regions, got one that reports no choices; "
                "take show_attend_tell, top_down or adaptive with selection hard or mixed"
            )
        unpacked = {name: reading.words.unpack(reading.details[name]) for name in (LOG_PROBABILITY, ENTROPY)}
        exists = batch.is_word[..., : unpacked[ENTROPY].shape[-1]]
        terms = entropy_terms(unpacked[ENTROPY], exists, weight=self.entropy_weight, kind=self.entropy)
        rewards = reading.words.unpack(self._rewards(reading, batch))
        returns = self.returns(rewards if terms.rewards is None else rewards + terms.rewards, exists)
        by_sample = returns.unflatten(1, (-1, self.samples))
        there = exists.unflatten(1, (-1, self.samples))
        baseline = self.baseline(by_sample, there).expand_as(by_sample).flatten(1, 2)
        surrogate = score_function(unpacked[LOG_PROBABILITY], returns, baseline, exists).sum()
        if self.training:
            # The returns of an image that was read softly are no sample's.
            sampled = exists & reading.words.unpack(reading.details[SAMPLED])
            self.baseline.update(by_sample, sampled.unflatten(1, (-1, self.samples)))
        return replace(said, total=said.total + self.reward_weight * surrogate + terms.loss.sum())

    @torch.no_grad()
    def _rewards(self, reading: Reading, batch: CaptionBatch) -> Tensor:
        """(n,) minus the loss of each word."""
        targets = reading.words.pack(batch.targets)
        smoothing = self.words.label_smoothing
        return -F.cross_entropy(reading.logits.float(), targets, reduction="none", label_smoothing=smoothing)
