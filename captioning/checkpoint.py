"""A captioner to share: a folder of safetensors and JSON. Loading it runs no code of the file's maker."""

import json
import platform
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor

import captioning
from captioning.build import rebuild_captioner
from captioning.captioner import Captioner, Encoder
from captioning.disk import whole_folder, write_json, write_whole
from captioning.errors import CheckpointError, ConfigError, DataError
from captioning.text.vocabulary import Vocabulary
from captioning.training.checkpoint_files import read_checkpoint

WEIGHTS, DESCRIPTION, FORMAT = "weights.safetensors", "captioner.json", 2
MODEL_FOLDER = "model"
_CHECKSUM = "description_sha256"


def save(captioner: Captioner, description: dict[str, Any], folder: Path | str) -> Path:
    """Write the captioner into `folder`, whole or not at all; a folder of that name is replaced.

    `description` comes from `captioning.build.describe_captioner`. Raises DiskError where it can't be written.
    """
    folder = Path(folder)
    with whole_folder(folder) as fresh:
        _write(captioner, description, fresh)
    return folder


def load(path: Path | str, *, vocabulary: Vocabulary | None = None, encoder: Encoder | None = None) -> Captioner:
    """A captioner in evaluation mode from a model folder, a run's folder, or a Lightning checkpoint (.ckpt).

    With `vocabulary` or `encoder`, it must be the one that the captioner was trained with. Raises CheckpointError for
    what is missing, damaged, of another format, or does not fit.
    """
    path = Path(path)
    description, weights = _read_lightning(path) if path.is_file() else _read_folder(_model_folder(path))
    captioner = _rebuilt(description, path)
    if vocabulary is not None:
        captioner.vocabulary.check_same(vocabulary)
    _fill(captioner, weights, path)
    if encoder is not None:
        _check_encoder(captioner.encoder, encoder)
    return captioner.eval()


def _write(captioner: Captioner, description: dict[str, Any], folder: Path) -> None:
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in captioner.state_dict().items()}
    content = to_bytes(_without_aliases(weights))
    write_whole(folder / WEIGHTS, content)
    told = {
        "format": FORMAT,
        "versions": {
            "captioning": captioning.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "weights_sha256": sha256(content).hexdigest(),
        **description,
    }
    write_json(folder / DESCRIPTION, {**told, _CHECKSUM: _description_hash(told)})


def _model_folder(path: Path) -> Path:
    for folder in (path, path / MODEL_FOLDER):
        if (folder / DESCRIPTION).is_file():
            return folder
    raise CheckpointError(
        f"{path}: expected a captioner's folder with {DESCRIPTION} and {WEIGHTS}, a run's folder, or a .ckpt file; "
        + ("there is no such file or folder" if not path.exists() else f"found no {DESCRIPTION} in it")
    )


def _read_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    description = _read_description(folder)
    if not (folder / WEIGHTS).is_file():
        raise CheckpointError(f"{folder}: expected {WEIGHTS} beside {DESCRIPTION}, found none; get a fresh copy")
    if _hash(folder / WEIGHTS) != description.get("weights_sha256"):
        raise CheckpointError(f"{folder / WEIGHTS}: its checksum is not the one noted; get a fresh copy")
    try:
        return description, load_file(folder / WEIGHTS)
    except SafetensorError as error:
        raise CheckpointError(f"{folder / WEIGHTS}: can't be read ({error}); get a fresh copy") from error


def _read_description(folder: Path) -> dict[str, Any]:
    """The description in the present format."""
    path = folder / DESCRIPTION
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: can't be read ({error}); get a fresh copy") from error
    if not isinstance(description, dict):
        raise CheckpointError(f"{path}: expected a captioner's description, got a {type(description).__name__}")
    noted = description.pop(_CHECKSUM, None)
    if noted != _description_hash(description) and description.get("format") != 1:
        raise CheckpointError(f"{path}: its checksum is not the one noted; get a fresh copy")
    return _migrated(description, path)


def _migrated(description: dict[str, Any], path: Path) -> dict[str, Any]:
    version = description.get("format")
    while version != FORMAT:
        if version not in MIGRATIONS:
            versions = description.get("versions")
            writer = versions.get("captioning") if isinstance(versions, dict) else None
            raise CheckpointError(
                f"{path}: expected format {FORMAT} or {', '.join(map(str, MIGRATIONS))}, got {version}; it was "
                f"written by captioning {writer or 'of unknown version'}, this is {captioning.__version__}"
            )
        description = MIGRATIONS[version](description)
        version = description["format"]
    return description


def _without_fingerprints(description: dict[str, Any]) -> dict[str, Any]:
    """Format 1 had neither fingerprints nor a checksum of its own."""
    return {**description, "format": 2, "fingerprints": {}}


MIGRATIONS: dict[Any, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _without_fingerprints}
"""An older format -> what makes the next one of it."""


def _rebuilt(description: dict[str, Any], path: Path) -> Captioner:
    try:
        return rebuild_captioner(description)
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError, DataError) as error:
        raise CheckpointError(
            f"{path}: its description is not that of a captioner of this version ({type(error).__name__}: {error})"
        ) from error


def _check_encoder(own: Encoder, other: Encoder) -> None:
    if own.fingerprint() != other.fingerprint():
        raise CheckpointError(
            f"encoder: the checkpoint's is {own.name}, {own.fingerprint()[:12]}, the one given is {other.name}, "
            f"{other.fingerprint()[:12]}. Leave the other one out: the checkpoint brings its own."
        )


def _read_lightning(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    checkpoint = read_checkpoint(path)
    prefix = "captioner."
    weights = {
        name.removeprefix(prefix): tensor
        for name, tensor in checkpoint["state_dict"].items()
        if name.startswith(prefix)
    }
    return checkpoint["captioner"], weights


def _fill(captioner: Captioner, weights: dict[str, Tensor], path: Path) -> None:
    present = {id(tensor) for name, tensor in captioner.state_dict(keep_vars=True).items() if name in weights}
    try:
        missing, unexpected = captioner.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise CheckpointError(f"{path}: weights of other shapes than the description says: {error}") from error
    # Tied weights are stored under one of their names.
    state = captioner.state_dict(keep_vars=True)
    wrong = [*unexpected, *(name for name in missing if id(state[name]) not in present)]
    if wrong:
        raise CheckpointError(f"{path}: weights do not fit the description, such as {', '.join(wrong[:3])}")


def _without_aliases(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tied weights once: safetensors refuses two names for one memory."""
    seen: set[int] = set()
    kept = {}
    for name, tensor in weights.items():
        if tensor.data_ptr() not in seen or tensor.numel() == 0:
            kept[name] = tensor
            seen.add(tensor.data_ptr())
    return kept


def _description_hash(description: dict[str, Any]) -> str:
    return sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        digest = sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
