"""Features of pictures on disk: made once by the encoder, read by every epoch, shared by every worker.

A store is a folder of shards (safetensors: one tensor (n, V, R, D) for n pictures in V views, and their ids)
and an index, which names the shards and what made them. `store_writer` makes it.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from captioning.differences import differences
from captioning.errors import StoreError
from captioning.features.image_features import ImageFeatures

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}

FORMAT = 1
INDEX = "index.json"
TENSOR = "regions"


@dataclass(frozen=True)
class StoreKey:
    """All that features depend on: a store with another key holds other features."""

    encoder: str
    """Name of the encoder."""
    weights: str
    """Hash of the encoder's weights."""
    layer: str
    """The stage whose map was taken."""
    preprocessing: dict[str, Any]
    """How a picture became pixels, in plain types."""
    views: tuple[str, ...] = ("plain",)
    """What was encoded of each picture, in order; "mirror" is the picture turned left to right."""
    dtype: str = "float16"
    """The numbers' type on disk, one of `DTYPES`."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise StoreError(f"feature store dtype: expected one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if not self.views or len(set(self.views)) < len(self.views):
            raise StoreError(f"feature store views: expected one or more different names, got {self.views}")

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, as JSON gives them back."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(**{**values, "views": tuple(values["views"])})

    def fingerprint(self) -> str:
        """Sha256 of all fields: a name for the folder of a store, say."""
        return sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def differences(self, other: "StoreKey") -> list[str]:
        """Each field in which `other` differs, with both values."""
        return differences(self.to_dict(), other.to_dict(), where="store")


class FeatureStore:
    """The regions of pictures, read memory-mapped in any process forked or spawned from the opener's.

    A memory map has no position that two readers could move, so a fork may share it; a spawned process gets
    names and places, and maps the shards itself.
    """

    def __init__(self, folder: Path, key: StoreKey, grid: tuple[int, int, int], shards: Sequence[str]) -> None:
        self.folder = folder
        self.key = key
        self.rows, self.columns, self.width = grid
        self.shards = tuple(shards)
        self._mapped: dict[int, Tensor] = {}
        self._places: dict[str, tuple[int, int]] = {}
        for number in range(len(shards)):
            self._places |= {image_id: (number, row) for row, image_id in enumerate(self._ids_of(number))}

    @classmethod
    def open(cls, folder: str | Path, key: StoreKey | None = None) -> Self:
        """The store in `folder`; StoreError where it is damaged or, given a key, was made otherwise."""
        folder = Path(folder)
        if not (folder / INDEX).is_file():
            raise StoreError(f"feature store {folder}: none there (no {INDEX}); make it with `captioning features`")
        try:
            index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
            version = index["format"]
            found, grid, shards = StoreKey.from_dict(index["key"]), tuple(index["grid"]), index["shards"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"feature store {folder}: {INDEX} is damaged ({error}); remove the folder") from error
        if version != FORMAT:
            raise StoreError(f"feature store {folder}: expected format {FORMAT}, got {version}; remove the folder")
        if key is not None and (differences := found.differences(key)):
            raise StoreError(
                f"feature store {folder}: made otherwise ({'; '.join(differences)}); "
                "give another folder, or remove this one to make it anew"
            )
        return cls(folder, found, grid, shards)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, image_id: object) -> bool:
        return image_id in self._places

    @property
    def image_ids(self) -> tuple[str, ...]:
        """The ids of all pictures, in the order in which they were written."""
        return tuple(self._places)

    def read(
        self, image_ids: Sequence[str], view: int | Sequence[int] = 0, *, dtype: torch.dtype = torch.float32
    ) -> ImageFeatures:
        """The features (B, R, D) of B pictures, in one view or in one each (indices into `key.views`)."""
        views = [view] * len(image_ids) if isinstance(view, int) else view
        if len(views) != len(image_ids) or not all(0 <= index < len(self.key.views) for index in views):
            raise StoreError(f"views: expected one of 0..{len(self.key.views) - 1} for each picture, got {view}")
        regions = torch.empty(len(image_ids), self.rows * self.columns, self.width, dtype=dtype)
        # One copy a picture, which converts on its way: gathering first would move everything twice.
        for target, image_id, index in zip(regions, image_ids, views, strict=True):
            shard, row = self._place(image_id)
            target.copy_(self._tensor(shard)[row, index])
        return ImageFeatures(regions, self.rows, self.columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mapped": {}}

    def _place(self, image_id: str) -> tuple[int, int]:
        try:
            return self._places[image_id]
        except KeyError:
            raise StoreError(
                f"feature store {self.folder}: no picture {image_id!r} among its {len(self)}; "
                "add it with `captioning features`"
            ) from None

    def _tensor(self, shard: int) -> Tensor:
        if shard not in self._mapped:
            with self._opened(shard) as file:
                self._mapped[shard] = file.get_tensor(TENSOR)  # maps, reads nothing
        return self._mapped[shard]

    def _ids_of(self, shard: int) -> list[str]:
        with self._opened(shard) as file:
            ids: list[str] = json.loads(file.metadata()["image_ids"])
            shape = tuple(file.get_slice(TENSOR).get_shape())
        expected = (len(ids), len(self.key.views), self.rows * self.columns, self.width)
        if shape != expected:
            raise StoreError(f"feature store shard {self.shards[shard]}: expected {expected}, got {shape}")
        return ids

    @contextmanager
    def _opened(self, shard: int) -> Iterator[Any]:
        path = self.folder / self.shards[shard]
        try:
            with safe_open(path, framework="pt") as file:
                yield file
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"feature store shard {path}: damaged ({error}); remove the folder") from error
