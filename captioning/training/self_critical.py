"""Training on the score of whole captions that the model says itself (Rennie et al., 2017, arXiv 1612.00563).

    −E[r(y)] ≈ −(r(y) − b) (Σ_t log p(y_t) + Σ_t log π(s_t)),   y and, with hard attention, the glimpses s both drawn

The reward r is CIDEr-D with an end word, as in the references: a caption is paid for ending well. Captions are drawn
without dropout, from the same distribution whose log-probabilities are differentiated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from captioning.captioner import Captioner
from captioning.captioner.constraints import FORBIDDEN
from captioning.data.batch import CaptionBatch
from captioning.decoders.decoder import without_dropout
from captioning.decoders.reading import Reading
from captioning.decoders.recurrent import LOG_PROBABILITY
from captioning.decoders.scheduled_sampling import ScheduledSampling
from captioning.decoders.speaking import Spoken, replaying, sayable, speak
from captioning.decoding.search import Search
from captioning.errors import ConfigError
from captioning.estimators import leave_one_out, score_function
from captioning.features.image_features import ImageFeatures
from captioning.metrics.cider import CiderD
from captioning.text.vocabulary import END, PAD, SPECIAL_WORDS, Vocabulary
from captioning.training.alarms import REWARD
from captioning.training.hard_attention import HardAttention
from captioning.training.objectives import CrossEntropy, Loss


class CiderReward:
    """CIDEr-D of captions in the model's own words, END being one; document frequencies of the training captions."""

    def __init__(self, references: Mapping[str, Sequence[str]], vocabulary: Vocabulary) -> None:
        """`references`: the training captions of each image."""
        self.vocabulary = vocabulary
        end = SPECIAL_WORDS[END]
        self.scorer = CiderD(
            {image: [[*vocabulary.tokenize(each), end] for each in captions] for image, captions in references.items()}
        )

    def __call__(self, image_ids: Sequence[str], words: Tensor) -> Tensor:
        """(B, M, T + 1) words from START on, as they were spoken -> (B, M) float32 rewards from 0 to 10."""
        images = [image for image in image_ids for _ in range(words.shape[1])]
        captions = [self._in_words(caption) for caption in words.flatten(0, 1).tolist()]
        scores = torch.from_numpy(self.scorer.score_many(images, captions))
        return scores.to(words.device, torch.float32).unflatten(0, words.shape[:2])

    def _in_words(self, caption: list[int]) -> list[str]:
        return [*self.vocabulary.decode(caption), *([SPECIAL_WORDS[END]] if END in caption else [])]


class SelfCritical(nn.Module):
    """−Σ_captions (r − b) Σ_t log p(y_t) over `samples` captions an image, + λ_x times the true captions' loss.

    b is the mean reward of the image's other samples (`leave_one_out`), or the reward of its greedy caption
    (`greedy`). The true captions' loss (λ_x, `true_weight`) keeps the captions from falling apart; it is divided by the
    number of true captions, the rest by that of the spoken ones. In validation the loss is the true captions'.
    """

    def __init__(
        self,
        true_captions: CrossEntropy | HardAttention,
        reward: CiderReward,
        *,
        samples: int = 5,
        baseline: Literal["leave_one_out", "greedy"] = "leave_one_out",
        true_weight: float = 0.1,
        longest: int = 20,
    ) -> None:
        super().__init__()
        if baseline not in ("leave_one_out", "greedy"):
            raise ConfigError(f"objective.spoken_baseline: expected leave_one_out or greedy, got {baseline!r}")
        least = 2 if baseline == "leave_one_out" else 1
        if samples < least:
            raise ConfigError(f"objective.spoken: expected at least {least} with {baseline}, got {samples}")
        self.true_captions, self.reward = true_captions, reward
        self.samples, self.baseline, self.true_weight, self.longest = samples, baseline, true_weight, longest

    def forward(self, reading: Reading, batch: CaptionBatch, features: ImageFeatures) -> Loss:
        """The true captions' loss."""
        return self.true_captions(reading, batch, features)

    def training_loss(
        self,
        captioner: Captioner,
        batch: CaptionBatch,
        features: ImageFeatures,
        sampling: ScheduledSampling | None = None,
    ) -> Loss:
        """As for all objectives; the rewards are reported."""
        with without_dropout(captioner.decoder):
            spoken = self._speak(captioner, features, captions=self.samples)
            with replaying(captioner.decoder, spoken):
                is_word = spoken.words[..., 1:] != PAD
                reading = captioner.decoder(features, spoken.words[..., :-1], is_word)
        rewards = self.reward(batch.image_ids, spoken.words)
        advantage = rewards.unsqueeze(-1) - self._baseline(captioner, batch, features, rewards)
        said = self.true_captions.training_loss(captioner, batch, features, sampling)
        count = rewards.numel()
        total = surrogate_of(reading, spoken, advantage) + self.true_weight * said.total * (count / max(said.count, 1))
        reported = {
            REWARD: rewards.mean().item(),
            "spoken_words": is_word.sum().item() / count,
            "bad_endings": bad_endings(spoken.words, captioner.vocabulary),
        }
        return replace(said, total=total, count=count, reported={**said.reported, **reported})

    def _baseline(self, captioner: Captioner, batch: CaptionBatch, features: ImageFeatures, rewards: Tensor) -> Tensor:
        """(B, M, 1) what each caption's reward is compared with."""
        if self.baseline == "leave_one_out":
            return leave_one_out(rewards.unsqueeze(-1))
        with without_dropout(captioner.decoder):
            greedy = self._speak(captioner, features, captions=1, likeliest=True)
        return self.reward(batch.image_ids, greedy.words).unsqueeze(-1)

    def _speak(
        self, captioner: Captioner, features: ImageFeatures, *, captions: int, likeliest: bool = False
    ) -> Spoken:
        return speak(
            captioner.decoder,
            features,
            captions=captions,
            longest=self.longest,
            never=FORBIDDEN,
            likeliest=likeliest,
        )


def bad_endings(words: Tensor, vocabulary: Vocabulary) -> float:
    """The share of captions (B, M, T + 1), from START on, that are cut off or end after a word such as "a"."""
    dangling = [vocabulary[word] for word in vocabulary.tokenize(Search().dangling_words) if word in vocabulary]
    ended = words == END
    before = words[..., :-1][ended[..., 1:]]  # what stands before each END
    bad = torch.isin(before, torch.tensor(dangling, device=words.device, dtype=words.dtype)).sum()
    captions = words.shape[0] * words.shape[1]
    return (bad + captions - ended.sum()).item() / max(captions, 1)


def surrogate_of(reading: Reading, spoken: Spoken, advantage: Tensor) -> Tensor:
    """−Σ (r − b) (Σ_t log p(y_t) + Σ_t log π(s_t)) for advantages (B, M, 1): its gradient is the estimate."""
    targets = spoken.words[..., 1:]
    said = sayable(reading.logits, FORBIDDEN).gather(1, reading.words.pack(targets).unsqueeze(1)).squeeze(1)
    chosen = reading.details.get(LOG_PROBABILITY)
    log_probabilities = reading.words.unpack(said if chosen is None else said + chosen)
    exists = targets[..., : log_probabilities.shape[-1]] != PAD
    nothing = torch.zeros_like(advantage)
    return score_function(log_probabilities, advantage.expand_as(log_probabilities), nothing, exists).sum()
