"""Small untrained captioners on real pixels, one for each decoder, and pictures for them."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from captioning.build import build_captioner, describe_captioner
from captioning.captioner import Captioner
from captioning.checkpoint import save
from captioning.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from captioning.decoding.search import Search
from captioning.text.vocabulary import SPECIAL_WORDS, Vocabulary

WORDS = ("a", "the", "of", "dog", "ball", "red", "runs", "on", "grass")
VOCABULARY = Vocabulary([*SPECIAL_WORDS, *WORDS])
DECODERS = {
    "show_attend_tell": {},
    "top_down": {},
    "adaptive": {},
    "transformer": {"heads": 2},
    "mean_pool": {},
}


def captioner(
    decoder: str = "show_attend_tell", *, seed: int = 1, encoder: str = "resnet18", vocabulary: Vocabulary = VOCABULARY
) -> Captioner:
    """With random weights, sharp enough to prefer some words to others."""
    torch.manual_seed(seed)
    made = build_captioner(settings_of(decoder, encoder), vocabulary, Search(beam_size=3, maximum_length=7))
    with torch.no_grad():
        made.decoder.output.vocabulary.weight.mul_(30)
    return made.eval()


def settings_of(decoder: str, encoder: str = "resnet18") -> ModelConfig:
    """A small model's."""
    return ModelConfig(
        EncoderConfig(name=encoder, weights="none", image_size=96),
        AttentionConfig() if decoder == "transformer" else AttentionConfig(width=8),
        DecoderConfig(name=decoder, state_width=12, word_width=8, **DECODERS[decoder]),
    )


def saved(folder: Path, decoder: str = "show_attend_tell", **options) -> Path:
    """The folder with such a captioner."""
    made = captioner(decoder, **options)
    return save(made, describe_captioner(made, settings_of(decoder)), folder)


def pictures(number: int) -> list[Image.Image]:
    """Of noise, wider than high."""
    generator = np.random.default_rng(7)
    return [Image.fromarray(generator.integers(0, 256, (101, 131, 3), dtype=np.uint8)) for _ in range(number)]
