"""A captioner to share: a folder of safetensors and JSON. Loading it runs no code of the file's maker."""

import json
import platform
import shutil
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

import captioning
from captioning.build import rebuild_captioner
from captioning.captioner import Captioner
from captioning.errors import CheckpointError
from captioning.text.vocabulary import Vocabulary

WEIGHTS, DESCRIPTION, FORMAT = "weights.safetensors", "captioner.json", 1
MODEL_FOLDER = "model"


def save(captioner: Captioner, description: dict[str, Any], folder: Path | str) -> Path:
    """Write the captioner into `folder`, whole or not at all; a folder of that name is replaced.

    `description` comes from `captioning.build.describe_captioner`.
    """
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in captioner.state_dict().items()}
    save_file(_without_aliases(weights), fresh / WEIGHTS)
    content = {
        "format": FORMAT,
        "versions": {
            "captioning": captioning.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "weights_sha256": _hash(fresh / WEIGHTS),
        **description,
    }
    (fresh / DESCRIPTION).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    fresh.chmod(0o755)
    replaced = fresh.with_name(f"{fresh.name}-replaced")
    if folder.exists():
        folder.rename(replaced)  # at every moment one of the two is whole
    fresh.rename(folder)
    shutil.rmtree(replaced, ignore_errors=True)
    return folder


def load(path: Path | str, *, vocabulary: Vocabulary | None = None) -> Captioner:
    """A captioner in evaluation mode from a model folder, a run's folder, or a Lightning checkpoint (.ckpt).

    With `vocabulary`, it must be the one that the captioner was trained with. Raises CheckpointError for what is
    missing, damaged, of another format, or does not fit.
    """
    path = Path(path)
    description, weights = _read_lightning(path) if path.is_file() else _read_folder(_model_folder(path))
    captioner = rebuild_captioner(description)
    if vocabulary is not None:
        captioner.vocabulary.check_same(vocabulary)
    _fill(captioner, weights, path)
    return captioner.eval()


def _model_folder(path: Path) -> Path:
    for folder in (path, path / MODEL_FOLDER):
        if (folder / DESCRIPTION).is_file():
            return folder
    raise CheckpointError(
        f"{path}: expected a captioner's folder with {DESCRIPTION} and {WEIGHTS}, a run's folder, or a .ckpt file; "
        + ("there is no such file or folder" if not path.exists() else f"found no {DESCRIPTION} in it")
    )


def _read_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / DESCRIPTION}: can't be read ({error}); get a fresh copy") from error
    if description.get("format") != FORMAT:
        raise CheckpointError(
            f"{folder}: expected format {FORMAT}, got {description.get('format')}; "
            f"it was written by captioning {description.get('versions', {}).get('captioning', 'of unknown version')}"
        )
    if not (folder / WEIGHTS).is_file():
        raise CheckpointError(f"{folder}: expected {WEIGHTS} beside {DESCRIPTION}, found none; get a fresh copy")
    if _hash(folder / WEIGHTS) != description["weights_sha256"]:
        raise CheckpointError(f"{folder / WEIGHTS}: its checksum is not the one noted; get a fresh copy")
    try:
        return description, load_file(folder / WEIGHTS)
    except SafetensorError as error:
        raise CheckpointError(f"{folder / WEIGHTS}: can't be read ({error}); get a fresh copy") from error


def _read_lightning(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # torch raises many kinds here: for damaged archives, for pickled code, for other files.
        raise CheckpointError(
            f"{path}: can't be loaded without running code in it, or is damaged "
            f"({str(error).splitlines()[0]}); give a captioner's folder or a .ckpt of captioning train"
        ) from error
    if not isinstance(checkpoint, dict) or "captioner" not in checkpoint:
        raise CheckpointError(f"{path}: expected a checkpoint of captioning train, found no captioner in it")
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


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        digest = sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
