"""Inputs that the cases have in common, made here so that they need no other folder."""

import io
import json
import os
from pathlib import Path

import pytest
import torch
from PIL import Image

from captioning.build import build_captioner, describe_captioner
from captioning.checkpoint import save
from captioning.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from captioning.decoding.search import Search
from captioning.text.vocabulary import SPECIAL_WORDS, Vocabulary

QUARTERS = {(16, 12): (220, 30, 30), (48, 12): (30, 180, 30), (16, 36): (30, 30, 220), (48, 36): (230, 220, 40)}
"""Where the board's four colours are looked up, and what they are."""
WORDS = ("a", "red", "green", "board", "with", "four", "colours", "dog")
MODEL = ModelConfig(
    EncoderConfig(name="cells", weights="none"),
    AttentionConfig(width=7),
    DecoderConfig(state_width=11, word_width=5, dropout=0.0),
)


def board():
    """64 x 48, four coloured quarters."""
    picture = Image.new("RGB", (64, 48))
    for (x, y), color in QUARTERS.items():
        picture.paste(color, (x - 16, y - 12, x + 16, y + 12))
    return picture


def encoded(picture, kind="PNG", **options):
    """The bytes of its file."""
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def write_rows(path, *rows):
    """A JSONL of (image, caption[, split])."""
    names = ("image", "caption", "split")
    lines = [json.dumps(dict(zip(names, row, strict=False)), ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def fresh_captioner(words=WORDS, *, seed=5, maximum_length=6):
    """A captioner with random weights that seed alone decides."""
    torch.manual_seed(seed)
    vocabulary = Vocabulary([*SPECIAL_WORDS, *words])
    return build_captioner(MODEL, vocabulary, Search(beam_size=3, maximum_length=maximum_length)).eval()


def write_captioner(folder, captioner=None):
    """The captioner as a folder to share."""
    captioner = captioner or fresh_captioner()
    return save(captioner, describe_captioner(captioner, MODEL), folder)


def given(kind, name):
    """A file of the awkward files that came with the cases; skips where they are not at hand."""
    shared = os.environ.get("CAPTIONING_SHARED")
    if not shared:
        pytest.skip("CAPTIONING_SHARED does not say where the awkward files are")
    return Path(shared, "cases", "files", kind, name)
