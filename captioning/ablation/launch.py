"""Start a run in a process of its own, so that no run can influence another, and tell how it ended."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from captioning.ablation.folder import FAILURE, OUTPUT, REQUEST, RESULT, state_of, write_json

ATTEMPTS = 3
"""How often a run that was killed from outside is started."""


def launch(
    folder: Path, request: Mapping[str, Any], environment: Mapping[str, str], stop: threading.Event | None = None
) -> None:
    """Make the run in its folder, unless it is made; afterwards the folder has a result or a failure.

    A process that a signal ended is started again: it was killed, it did not fail. Once `stop` is set, the process is
    ended and the run stays missing.
    """
    stop = stop or threading.Event()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FAILURE).unlink(missing_ok=True)
    write_json(folder / REQUEST, request)
    status = 0
    for _ in range(ATTEMPTS):
        if stop.is_set() or (folder / RESULT).is_file():
            return
        status = _process(folder, environment, stop)
        if status >= 0:
            break
    if state_of(folder) == "missing" and not stop.is_set():
        write_json(folder / FAILURE, {"error": _told(status), "killed": status < 0})


def _process(folder: Path, environment: Mapping[str, str], stop: threading.Event) -> int:
    """One attempt's exit status; negative: the signal that ended it.

    The process ends itself when its standard input closes, that is, when the one that started it is gone. It has a
    session of its own, so that an interrupt at the terminal reaches the study alone, which then ends its runs.
    """
    command = [sys.executable, "-m", "captioning.ablation.job", str(folder)]
    with (folder / OUTPUT).open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        with process:
            while process.poll() is None and not stop.wait(0.05):
                pass
            process.kill()
            return process.wait()


def _told(status: int) -> str:
    if status >= 0:
        return f"ended with status {status} and no result; {OUTPUT} has what it said"
    names = {each.value: each.name for each in signal.Signals}
    name = names.get(-status, f"signal {-status}")
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return f"killed by {name} {ATTEMPTS} times{hint}"
