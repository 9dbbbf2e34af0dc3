"""A run that is killed and started again ends as one that was not: the short form of `make soak`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_kill_while_a_file_is_written_resumes_to_equal_weights():
    done = subprocess.run(
        [sys.executable, "-m", "scripts.soak", "--kills", "1", "--runs", "mixed", "--seed", "8"],
        cwd=ROOT,
        timeout=1800,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mixed: killed writing file" in done.stdout
    assert "1 of 1 kills resumed to equal weights" in done.stdout
