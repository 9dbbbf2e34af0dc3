"""What can each attention mechanism do where the right answer is known? Trains each config on the drawn set.

    python -m scripts.attention_study configs/attention/*.yaml --output runs/attention_study

Prints one row a config: exact captions and pointing on the test pictures, minutes of training, parameters.
"""

import json
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from captioning.cli.settings import parse_training_config
from captioning.evaluation import score_drawn
from captioning.run.train import train

HEADER = "| config | exact captions | pointing | minutes | parameters |\n| --- | ---: | ---: | ---: | ---: |"


def main() -> None:
    """One run a config; a result that is there already is read, not made again."""
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("configs", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, default=Path("runs/attention_study"))
    parser.add_argument("--threads", type=int, default=2, help="threads that torch may use")
    options, overrides = parser.parse_known_args()
    torch.set_num_threads(options.threads)
    print(HEADER, flush=True)
    for config in options.configs:
        result = options.output / config.stem / "drawn.json"
        if not result.is_file():
            found = study(config, options.output, overrides)
            result.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(row(config.stem, json.loads(result.read_text(encoding="utf-8"))), flush=True)


def study(config: Path, output: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """Train one config and score it on the test pictures."""
    name = ["--name", config.stem, "--output", str(output), "--overwrite", "true", "--trainer.progress_bar", "false"]
    settings = parse_training_config(["--config", str(config), *name, *overrides], prog="attention_study")
    started = time.monotonic()
    result = train(settings)
    minutes = (time.monotonic() - started) / 60
    assert result.data.drawn is not None
    found = score_drawn(result.captioner, result.data.drawn)
    return {
        "exact": found.exact,
        "pointing": found.pointing.share,
        "minutes": minutes,
        "parameters": sum(parameter.numel() for parameter in result.captioner.parameters()),
    }


def row(name: str, found: dict[str, Any]) -> str:
    """A line of the table."""
    shares = [f"{found[key]:.3f}" for key in ("exact", "pointing")]
    return f"| `{name}` | {' | '.join(shares)} | {found['minutes']:.1f} | {found['parameters']:,} |"


if __name__ == "__main__":
    main()
