"""The one gate, the same on a laptop and in CI: format, lint, types, tests."""

import subprocess
import sys
import time

STEPS = {
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "."],
    "types": ["mypy"],
    "tests": ["pytest", "-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"],
}


def main() -> int:
    """Run all steps, even after one failed; exit status 1 if any did."""
    failed = []
    for name, command in STEPS.items():
        started = time.monotonic()
        print(f"== {name}: {' '.join(command)}", flush=True)
        status = subprocess.run([sys.executable, "-m", *command], check=False).returncode
        print(f"== {name}: {'ok' if status == 0 else 'FAILED'} in {time.monotonic() - started:.0f} s", flush=True)
        if status != 0:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
