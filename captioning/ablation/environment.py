"""What a result was made with: versions, the code's state in git, and the machine."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import captioning

_PACKAGES = ("torch", "torchvision", "pytorch-lightning", "numpy", "timm", "entmax")


def describe_environment() -> dict[str, Any]:
    """In plain types."""
    return {
        "captioning": captioning.__version__,
        "git": git_state(Path(captioning.__file__).parent),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
    }


def git_state(folder: Path) -> str | None:
    """The commit of the code, "+ changes" where files differ from it; None outside a git tree."""

    def git(*arguments: str) -> str:
        call = ["git", "-C", str(folder), *arguments]
        return subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        commit = git("rev-parse", "--short=12", "HEAD")
        return f"{commit} + changes" if git("status", "--porcelain", "--", ".") else commit
    except (OSError, subprocess.CalledProcessError):
        return None


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
