"""Progress on the terminal's error stream, so that standard output holds results only."""

import logging
import sys
from collections.abc import Callable

from tqdm import tqdm


def report(task: str) -> Callable[[int, int], None]:
    """A reporter `(done, total)` that shows a bar for `task` from its first call on."""
    bars: list[tqdm] = []

    def show(done: int, total: int) -> None:
        if not bars:
            bars.append(tqdm(total=total, desc=task, initial=done, unit="image", file=sys.stderr))
        bars[0].update(done - bars[0].n)
        if done >= total:
            bars[0].close()

    return show


def show_log() -> None:
    """Print what the package tells, a line each."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("captioning").setLevel(logging.INFO)
