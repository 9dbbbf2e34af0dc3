"""Is a run that was killed, again and again, in the end the run that was never killed? Bit for bit?

    python -m scripts.soak --kills 10

Two small runs are trained to their end in peace: `mixed` (sampled regions and a baseline's running mean, scheduled
sampling, moving average of weights, warm-up and plateau, early stopping, accumulated batches, dropout, drawn captions)
and `store` (a CNN whose features go through a store). Then each is trained again and killed (SIGKILL) at random
moments, half of them by the clock and half in the middle of writing a file, and started with `--ckpt_path last` until
it ends. Compared are all of `last.ckpt` and `best.ckpt`, the model to share and the predictions.
"""

import argparse
import os
import platform
import random
import signal
import stat
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import torch

import captioning.run.train  # noqa: F401 (children are forked with all that is imported)
from captioning.cli.main import main as command
from captioning.data.synthetic import draw_set, write_drawn_set

SMALL = """
--model.attention.width 7 --model.decoder.state_width 11 --model.decoder.word_width 5 --data.minimum_count 1
--data.batch_size 3 --trainer.progress_bar false --trainer.accelerator cpu --trainer.sample_images 1
--trainer.checkpoint_every_n_steps 2 --search.maximum_length 9 --search.beam_size 2
"""
RUNS = {
    "mixed": """
--model.encoder.name cells --model.encoder.weights none --model.attention.selection mixed --objective.name hard
--objective.entropy_weight 0.1 --objective.scheduled_sampling 0.5 --objective.scheduled_sampling_epochs 2
--trainer.ema_decay 0.9 --trainer.patience 2 --trainer.accumulate_grad_batches 2 --trainer.max_epochs 6
--optimizer.schedule plateau --optimizer.plateau_patience 0 --optimizer.warmup_steps 3
--optimizer.learning_rate 0.01 --data.captions_per_image 1 --trainer.monitor BLEU-4
""",
    "store": """
--model.encoder.name resnet18 --model.encoder.weights none --model.encoder.image_size 64
--optimizer.schedule cosine --trainer.max_epochs 3 --model.decoder.dropout 0.3
""",
}
"""Every setting that a checkpoint must keep something for, in one of them."""
MOST_KILLS_OF_A_RUN = 5


@dataclass
class Outcome:
    """How a child ended."""

    killed: bool
    seconds: float
    writes: int
    """Files it had waited for the disk for."""


def main() -> int:
    """Exit status 1 if any run came to another end."""
    options = _options()
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_drawn_set(folder / "drawn", draw_set(train=20, val=5, test=1))
        survived = sum(_soak(name, folder, options) for name in options.runs)
    wanted = options.kills * len(options.runs)
    print(f"{survived} of {wanted} kills resumed to equal weights", flush=True)
    print(f"{date.today()}, {os.cpu_count()} cores, {platform.machine()}, torch {torch.__version__}")
    return 0 if survived == wanted else 1


def _options() -> argparse.Namespace:
    made = argparse.ArgumentParser(prog="soak", description=(__doc__ or "").split("\n")[0])
    made.add_argument("--kills", type=int, default=10, help="Of each of the runs.")
    made.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS))
    made.add_argument("--seed", type=int, default=1, help="Of the moments.")
    return made.parse_args()


def _soak(name: str, folder: Path, options: argparse.Namespace) -> int:
    """How many of the kills of this kind of run ended in the weights of the one in peace."""
    draw = random.Random(f"{options.seed} {name}")
    peace = folder / name / "peace"
    whole = _train(name, folder, peace, Kill())
    print(f"{name}: never killed, {whole.seconds:.1f} s, {whole.writes} files", flush=True)
    done = survived = 0
    while done < options.kills:
        run = folder / name / f"killed-{done}"
        moments = []
        while len(moments) < min(MOST_KILLS_OF_A_RUN, options.kills - done):
            kill = _random_kill(draw, whole)
            if not _train(name, folder, run, kill).killed:
                break
            moments.append(str(kill))
        _train(name, folder, run, Kill())
        wrong = _differences(peace, run)
        print(f"{name}: killed {', '.join(moments)}: {wrong or 'equal'}", flush=True)
        done += len(moments)
        survived += 0 if wrong else len(moments)
    return survived


@dataclass(frozen=True)
class Kill:
    """When a child is killed; without a moment, never."""

    seconds: float | None = None
    """After so many."""
    write: int | None = None
    """While it writes its nth file: what it has written lies there under another name."""

    def __str__(self) -> str:
        return f"after {self.seconds:.2f} s" if self.write is None else f"writing file {self.write}"


def _random_kill(draw: random.Random, whole: Outcome) -> Kill:
    """Half of them by the clock; early enough that most find the run alive."""
    if draw.random() < 0.5:
        return Kill(seconds=draw.uniform(0, whole.seconds / 2))
    return Kill(write=draw.randint(1, max(1, whole.writes // 2)))


def _train(name: str, folder: Path, run: Path, kill: Kill) -> Outcome:
    """The command in a child of its own, which is killed at that moment if it comes so far."""
    arguments = [
        *("train", *SMALL.split(), *RUNS[name].split(), "--ckpt_path", "last", "--output", run.parent),
        *("--name", run.name, "--data.captions", folder / "drawn" / "captions.jsonl"),
        *("--data.feature_cache", run / "features"),
    ]
    started, counter = time.monotonic(), folder / "writes"
    counter.write_bytes(b"")
    child = os.fork()
    if child == 0:
        _be_the_run([str(each) for each in arguments], folder / f"{run.name}.log", counter, kill)
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if kill.seconds is not None and time.monotonic() - started > kill.seconds:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if not killed and status != 0:
        raise SystemExit(f"{' '.join(map(str, arguments))}\n{(folder / f'{run.name}.log').read_text()}")
    return Outcome(killed, time.monotonic() - started, counter.stat().st_size)


def _be_the_run(arguments: list[str], log: Path, counter: Path, kill: Kill) -> NoReturn:
    """In the child: the command, its words to a file; a byte to `counter` for each file that is written."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    written = os.open(counter, os.O_WRONLY | os.O_APPEND)
    wait_for_disk = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.write(written, b".")
            if os.fstat(written).st_size == kill.write:
                os.kill(os.getpid(), signal.SIGKILL)
        wait_for_disk(descriptor)

    os.fsync = fsync
    warnings.simplefilter("ignore")
    try:
        status = command(arguments)
    except BaseException:
        traceback.print_exc()
        status = 1
    os._exit(status)


def _differences(one: Path, other: Path) -> list[str]:
    """What differs between two runs: everything in their checkpoints and models counts."""
    wrong = []
    for name in ("checkpoints/last.ckpt", "checkpoints/best.ckpt"):
        first, second = (torch.load(run / name, weights_only=True) for run in (one, other))
        wrong += [f"{name} {place}" for place in _unequal(first, second)]
    for name in ("model/weights.safetensors", "predictions.json"):
        if (one / name).read_bytes() != (other / name).read_bytes():
            wrong.append(name)
    return wrong


def _unequal(one: Any, other: Any, place: str = "") -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        return [each for key in keys for each in _unequal(one.get(key), other.get(key), f"{place}.{key}")]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        pairs = zip(one, other, strict=True)
        return [each for n, pair in enumerate(pairs) for each in _unequal(*pair, f"{place}.{n}")]
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        same = one.dtype == other.dtype and one.shape == other.shape
        return [] if same and one.numpy(force=True).tobytes() == other.numpy(force=True).tobytes() else [place]
    return [] if one == other or (one != one and other != other) else [place]


if __name__ == "__main__":
    sys.exit(main())
