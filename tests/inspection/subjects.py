"""Small untrained captioners on a few drawn pictures, to be inspected."""

import dataclasses

import torch

from captioning.build import build_captioner
from captioning.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from captioning.data.records import build_vocabulary
from captioning.data.synthetic import draw_set
from captioning.decoding.search import Search
from captioning.inspection import prepare

DRAWN = draw_set(train=1, val=1, test=7, seed=3)
VOCABULARY = build_vocabulary(
    dataclasses.replace(
        DRAWN.captions, records=tuple(dataclasses.replace(each, split="train") for each in DRAWN.captions.records)
    ),
    minimum_count=1,
)
TEST = DRAWN.captions.split("test")
DECODERS = {
    "show_attend_tell": {},
    "top_down": {},
    "adaptive": {},
    "transformer": {"heads": 2},
    "uniform": {"attention": {"normalizer": "uniform"}},
    "argmax": {"search": {"test_time_rule": "argmax"}},
}


def captioner(name: str, **attention):
    """With random weights, sharp enough to prefer some words, and some cells, to others."""
    settings = dict(DECODERS.get(name, {}))
    chosen = AttentionConfig(width=8, **{**settings.pop("attention", {}), **attention})
    search = Search(beam_size=2, maximum_length=6, minimum_length=2, **settings.pop("search", {}))
    kind = "show_attend_tell" if name in ("uniform", "argmax") else name
    model = ModelConfig(
        EncoderConfig(name="cells", weights="none"),
        AttentionConfig() if name == "transformer" else chosen,
        DecoderConfig(name=kind, state_width=12, word_width=8, **settings),
    )
    torch.manual_seed(1)
    made = build_captioner(model, VOCABULARY, search)
    with torch.no_grad():
        made.decoder.output.vocabulary.weight.mul_(30)
    return made.eval()


def subject(name: str, **attention):
    """Such a captioner with the seven test pictures, in two batches."""
    made = captioner(name, **attention)
    return prepare(made, TEST, DRAWN.pictures(made.encoder.preprocessing), batch_size=5)
