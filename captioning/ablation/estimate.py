"""How long a study will take, measured from one short run: `python -m captioning.ablation.estimate < config.json`.

    seconds of a run = fixed + steps * seconds a step + validations * validation images * seconds an image

The short run trains its config for a few steps three times in one process: the first time to warm up, then two
lengths, whose difference is the time of steps alone. Fixed is what else a run costs: the start of its process, data,
the last scoring.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from captioning.ablation.grid import Plan
from captioning.ablation.identity import plain, settings_from
from captioning.config import TrainingConfig
from captioning.errors import CaptioningError

Result = TypeVar("Result")

FEW, MORE = 4, 24
"""Steps of the two lengths."""


@dataclass(frozen=True)
class Measured:
    """What the short run took, and how much there is to do."""

    fixed: float
    """Seconds of a run besides its steps and validations."""
    step: float
    """Seconds of a step."""
    image: float
    """Seconds to caption an image."""
    train_images: int
    validation_images: int

    def seconds(self, config: TrainingConfig) -> float:
        """Estimated for a whole run."""
        epochs = config.trainer.max_epochs
        steps = epochs * ceil(self.train_images / config.data.batch_size / config.trainer.accumulate_grad_batches)
        if config.trainer.max_steps >= 0:
            steps = min(steps, config.trainer.max_steps)
        validations = epochs // config.trainer.validate_every
        return self.fixed + steps * self.step + validations * self.validation_images * self.image


def measure(plan: Plan) -> Measured:
    """The short run of the reference's config, in a process of its own. Raises CaptioningError with what it said."""
    command = [sys.executable, "-m", "captioning.ablation.estimate"]
    request = json.dumps(plain(plan.runs[0].config))
    started = time.monotonic()
    ended = subprocess.run(command, input=request, capture_output=True, text=True, check=False)
    whole = time.monotonic() - started
    if ended.returncode != 0:
        said = ended.stderr.strip().splitlines() or [f"status {ended.returncode}"]
        raise CaptioningError(f"the short run ended early: {said[-1]}")
    told = json.loads(ended.stdout.splitlines()[-1])
    inside = told.pop("inside")
    measured = Measured(**told)
    return replace(measured, fixed=measured.fixed + max(0.0, whole - inside))


def short_run(config: TrainingConfig) -> Measured:
    """Measure in this process. Pictures in files are cut down to what the steps need, in a store that is dropped."""
    from captioning.evaluation import predict
    from captioning.run.data import open_data, open_pictures
    from captioning.run.train import train

    whole = open_data(config.data, seed=config.seed, check_files=False).captions.counts()
    with TemporaryDirectory() as folder:
        short = _shortened(config, Path(folder))
        _timed(lambda: train(_steps(short, 1)))
        few, _ = _timed(lambda: train(_steps(short, FEW)))
        more, result = _timed(lambda: train(_steps(short, MORE)))
        validation = result.data.captions.split("val")
        pictures = open_pictures(short.data, result.data, result.captioner.encoder)
        captioning, _ = _timed(lambda: predict(result.captioner, validation, pictures))
    step = max(0.0, more - few) / (MORE - FEW)
    return Measured(
        fixed=max(0.0, few - FEW * step),
        step=step,
        image=captioning / len(validation),
        train_images=whole["train"].images,
        validation_images=len(validation),
    )


def _shortened(config: TrainingConfig, folder: Path) -> TrainingConfig:
    data, trainer = config.data, replace(config.trainer, progress_bar=False, sample_images=0)
    if data.format != "drawn":
        images = MORE * data.batch_size * config.trainer.accumulate_grad_batches
        images = min(images, data.train_images or images)
        data = replace(data, train_images=images, feature_cache=str(folder / "features"))
    return replace(config, name="short", output=str(folder), overwrite=True, data=data, trainer=trainer)


def _steps(config: TrainingConfig, steps: int) -> TrainingConfig:
    never = 10**6  # epochs: of a few pictures they are short, and only the steps are to end the run
    return replace(config, trainer=replace(config.trainer, max_steps=steps, max_epochs=never, validate_every=never))


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    started = time.monotonic()
    result = work()
    return time.monotonic() - started, result


def main() -> int:
    """Read the request, measure, print the result as the last line."""
    config = settings_from(TrainingConfig, json.load(sys.stdin))
    started = time.monotonic()
    try:
        measured = asdict(short_run(config))
        sys.stdout.write(json.dumps(measured | {"inside": time.monotonic() - started}) + "\n")
    except CaptioningError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
