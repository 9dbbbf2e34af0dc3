"""A captioner small enough to train in a second, and data whose captions differ in number and length."""

import logging
import warnings

import numpy as np
import pytorch_lightning as pl
import torch

from captioning.build import build_captioner, describe_captioner
from captioning.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from captioning.data.dataset import CaptionDataset
from captioning.data.records import CaptionedImage, CaptionSet
from captioning.data.sources import PictureArrays
from captioning.decoding.search import Search
from captioning.text.tokenize import tokenize
from captioning.text.vocabulary import Vocabulary
from captioning.training.datamodule import CaptionDataModule, LoaderSettings
from captioning.training.module import CaptioningModule
from captioning.training.objectives import CrossEntropy
from captioning.training.settings import OptimizerSettings

WORDS = ["a", "red", "green", "blue", "circle", "square", "star", "above", "below", "left", "of", "the"]
MODEL = ModelConfig(
    EncoderConfig(name="cells", weights="none"),
    AttentionConfig(width=7),
    DecoderConfig(state_width=11, word_width=5, dropout=0.0),
)


def captions(images, *, seed=0, alike=False):
    """With `alike` every picture has the same captions."""
    if alike:
        said = ("a red circle above the blue star", "a circle")
        return CaptionSet(tuple(CaptionedImage(f"{i}.png", f"{i}.png", said, "train") for i in range(images)))
    generator = np.random.default_rng(seed)
    records = [
        CaptionedImage(
            f"{i}.png",
            f"{i}.png",
            tuple(" ".join(generator.choice(WORDS, generator.integers(2, 9))) for _ in range(generator.integers(1, 4))),
            "train",
        )
        for i in range(images)
    ]
    return CaptionSet(tuple(records))


def make(images=8, *, batch_size=4, optimizer=None, objective=None, monitor="CIDEr-D", model=MODEL, **more):
    """(module, data module); the same at every call. With `alike` all pictures are; `workers` read ahead."""
    torch.manual_seed(3)
    alike = more.get("alike", False)
    captioned = captions(images, alike=alike)
    vocabulary = Vocabulary.build((tokenize(caption) for caption in captioned.captions), minimum_count=1)
    captioner = build_captioner(model, vocabulary, Search(beam_size=2, maximum_length=6))
    pixels = np.random.default_rng(1).integers(0, 256, (images, 96, 96, 3)).astype(np.uint8)
    if alike:
        pixels[:] = pixels[0]
    places = {record.image_id: place for place, record in enumerate(captioned.records)}
    pictures = PictureArrays(pixels, places, captioner.encoder.preprocessing)
    dataset = CaptionDataset(captioned, vocabulary, pictures)
    module = CaptioningModule(
        captioner,
        objective or CrossEntropy(label_smoothing=0.1, penalty_weight=0.5),
        description=describe_captioner(captioner, model),
        optimizer=optimizer or OptimizerSettings(name="sgd", learning_rate=0.1, encoder_learning_rate=0.1),
        references=captioned.references,
        validation_search=Search(beam_size=1, maximum_length=6),
        monitor=monitor,
    )
    loaders = LoaderSettings(batch_size, evaluation_batch_size=3, workers=more.get("workers", 0))
    return module, CaptionDataModule(dataset, dataset, loaders)


def trainer(**settings):
    """A Trainer that writes nothing and says nothing."""
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    quiet = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "use_distributed_sampler": False,
        "num_sanity_val_steps": 0,
        "max_epochs": 1,
    }
    return pl.Trainer(**quiet | settings)


def fit(module, loaders, *, ckpt_path=None, **settings):
    """Train and return the Trainer; Lightning's advice on workers and old torch names is not ours to follow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = trainer(**settings)
        made.fit(module, loaders, ckpt_path=ckpt_path, weights_only=True)
    return made
