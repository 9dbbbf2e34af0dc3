"""A run that is killed and started again ends as one that was not: the short form of `make soak`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_two_kills_resume_to_equal_weights():
    done = subprocess.run(
        [sys.executable, "-m", "scripts.soak", "--kills", "2", "--runs", "mixed", "--seed", "3"],
        cwd=ROOT,
        timeout=1800,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 kills resumed to equal weights" in done.stdout
