"""One run, in a process of its own: `python -m captioning.ablation.job FOLDER`; the folder's run.json says what."""

import os
import resource
import sys
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from captioning.ablation.counts import EXACT, POINTING, count_answers, write_counts
from captioning.ablation.environment import describe_environment
from captioning.ablation.folder import (
    COUNTS,
    ENVIRONMENT,
    FAILURE,
    LOCK,
    PREDICTIONS,
    REFERENCES,
    REQUEST,
    RESULT,
    SCORES,
    TRAINING,
    clear,
    locked,
    read_json,
    write_json,
)
from captioning.ablation.identity import settings_from
from captioning.build import build_encoder
from captioning.config import TrainingConfig
from captioning.data.drawn.scenes import GRID
from captioning.data.records import CaptionSet
from captioning.evaluation import (
    DrawnScores,
    Predictions,
    predict,
    score_drawn,
    score_predictions,
    search_details,
    write_predictions,
    write_scores,
)
from captioning.extraction import extraction_device
from captioning.run.data import RunData, open_data, open_pictures
from captioning.run.processes import leads
from captioning.run.train import TrainingResult, train


def main() -> int:
    """Exit status 0: the result is there; 1: it failed, and failure.json says why."""
    folder = Path(sys.argv[1])
    request = read_json(folder / REQUEST)
    config = replace(
        settings_from(TrainingConfig, request["config"]), name=TRAINING, output=str(folder), overwrite=True
    )
    if not leads():  # a further process of a run over several devices, started by Lightning
        train(config)
        return 0
    end_with_parent()
    with locked(folder / LOCK):
        if (folder / RESULT).is_file():
            return 0
        clear(folder)
        try:
            make(folder, config, request)
        except Exception as error:  # whatever it is, the study goes on and its table tells it
            traceback.print_exc()
            write_json(folder / FAILURE, {"error": f"{type(error).__name__}: {error}", "killed": False})
            return 1
    return 0


def end_with_parent() -> None:
    """End this process when its standard input closes: its parent is gone, and nobody waits for the result."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os._exit(130)

    threading.Thread(target=watch, daemon=True).start()


def make(folder: Path, config: TrainingConfig, request: dict[str, Any]) -> None:
    """Train, answer the split, and write all files, the result last."""
    write_json(folder / ENVIRONMENT, describe_environment() | {"processes": request.get("processes", 1)})
    check_split(config, request["split"])
    make_store_once(config)
    started = time.monotonic()
    result = train(config)
    trained = time.monotonic()
    answered = answer(config, result, request["split"])
    captioned = time.monotonic()
    captions = result.data.captions.split(request["split"])
    write_answers(folder, result, answered, captions, request["split"])
    write_json(
        folder / RESULT,
        {
            "identity": request["identity"],
            "training_seconds": trained - started,
            "milliseconds_an_image": 1000 * (captioned - trained) / len(captions),
            "peak_memory_mb": peak_memory_mb(),
            "parameters": sum(parameter.numel() for parameter in result.captioner.parameters()),
            "train_images": len(result.data.captions.split("train")),
            "images": len(captions),
        },
    )


def check_split(config: TrainingConfig, split: str) -> None:
    """Raises DataError before the training, not after it, where there are no images to score on."""
    if config.data.format != "drawn":
        open_data(config.data, seed=config.seed, check_files=False).captions.split(split)


def make_store_once(config: TrainingConfig) -> None:
    """Of runs that start together the first makes the feature store; all then only read it."""
    if config.data.format == "drawn" or config.data.features != "auto":
        return
    cache = Path(config.data.feature_cache)
    with locked(cache / "making.lock"):
        data = open_data(config.data, seed=config.seed)
        encoder = build_encoder(config.model.encoder)
        open_pictures(config.data, data, encoder, device=extraction_device(config.trainer.accelerator))


def answer(config: TrainingConfig, result: TrainingResult, split: str) -> Predictions | DrawnScores:
    """The best captioner's captions of the split; of the drawn set's test pictures with their maps."""
    if result.data.drawn is not None and split == "test":
        return score_drawn(result.captioner, result.data.drawn)
    data: RunData = result.data
    pictures = open_pictures(config.data, data, result.captioner.encoder)
    return predict(result.captioner, data.captions.split(split), pictures, batch_size=config.data.evaluation_batch_size)


def write_answers(
    folder: Path, result: TrainingResult, answered: Predictions | DrawnScores, captions: CaptionSet, split: str
) -> None:
    """Predictions, references, scores, and the counts that tests over images work on."""
    drawn = answered if isinstance(answered, DrawnScores) else None
    cells = result.data.drawn.word_cells if result.data.drawn is not None and _on_cells(drawn) else None
    said = {name: each if isinstance(each, str) else each.text for name, each in answered.captions.items()}
    scores = score_predictions(said, captions)
    shares = {} if drawn is None else {EXACT: drawn.exact}
    if drawn is not None and cells is not None:
        shares[POINTING] = drawn.pointing.share
    write_predictions(folder / PREDICTIONS, said)
    write_json(folder / REFERENCES, captions.references)
    write_counts(folder / COUNTS, count_answers(said, captions.references, scores, drawn=drawn, cells=cells))
    details = {"split": split, "images": len(captions), **search_details(result.captioner.default_search)}
    write_scores(folder / SCORES, replace(scores, corpus={**shares, **scores.corpus}), details=details)


def _on_cells(drawn: DrawnScores | None) -> bool:
    """Whether the maps have the drawn pictures' own grid: on another one, no cell is the true one."""
    return drawn is not None and all(each.maps.shape[1:] == (GRID, GRID) for each in drawn.captions.values())


def peak_memory_mb() -> float:
    """The most memory that this process held: the accelerator's where there is one, else the machine's."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated() > 0:
        return torch.cuda.max_memory_allocated() / 2**20
    unit = 1 if sys.platform == "darwin" else 2**10  # bytes there, kibibytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


if __name__ == "__main__":
    sys.exit(main())
