"""Progress on the terminal's error stream, so that standard output holds results only."""

import logging
import sys
from collections.abc import Callable

from tqdm import tqdm


def report(task: str, unit: str = "image") -> Callable[[int, int], None]:
    """A reporter `(done, total)` that shows a bar for `task` from its first call on."""
    bars: list[tqdm] = []

    def show(done: int, total: int) -> None:
        if not bars:
            bars.append(tqdm(total=total, desc=task, initial=done, unit=unit, file=sys.stderr))
        bars[0].update(done - bars[0].n)
        if done >= total:
            bars[0].close()

    return show


def show_log() -> None:
    """Print what the package tells, a line each."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("captioning").setLevel(logging.INFO)


class RunBar:
    """A bar over the runs of a study, with the best variant so far."""

    def __init__(self, runs: int) -> None:
        self._bar = tqdm(total=runs, desc="runs", unit="run", file=sys.stderr)

    def __enter__(self) -> "RunBar":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def show(self, ended: int, failed: int, best: str) -> None:
        """Runs that have ended, those of them that failed, and a word on the best."""
        self._bar.n = ended
        self._bar.set_postfix_str(", ".join(filter(None, [f"{failed} failed" if failed else "", best])))
