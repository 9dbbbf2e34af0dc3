"""The CNN runs once a picture: fill a feature store from picture files."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor

from captioning.captioner import evaluation_mode
from captioning.data.records import CaptionedImage
from captioning.data.transforms import ImageTransform
from captioning.encoders.grid import GridEncoder
from captioning.features.image_features import ImageFeatures
from captioning.features.store import FeatureStore, StoreKey
from captioning.features.store_writer import write_store

PLAIN, MIRROR = "plain", "mirror"
LOADING_THREADS = 4  # Decoding a picture lets go of the interpreter's lock.
# A CPU gains nothing from large batches: its allocator would ask the system for the large maps again at each layer,
# which took as long as the convolutions.
CPU_BATCH, DEVICE_BATCH = 4, 64


def extraction_device(accelerator: str = "auto") -> str:
    """Where to encode, in Lightning's words for a device: the first GPU if there is one and it is not ruled out."""
    return "cuda" if accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available() else "cpu"


def store_key(encoder: GridEncoder, *, mirror: bool = False, dtype: str = "float16") -> StoreKey:
    """What the stored features of this encoder depend on: those of its frozen part, where some of it is tuned."""
    return StoreKey(
        encoder=encoder.name,
        weights=encoder.stored_fingerprint(),
        layer=encoder.stored_layer or encoder.layer,
        preprocessing=encoder.preprocessing.to_dict(),
        views=(PLAIN, MIRROR) if mirror else (PLAIN,),
        dtype=dtype,
    )


def store_folder(cache: Path, key: StoreKey, images: Sequence[CaptionedImage]) -> Path:
    """Where a cache keeps the store of these pictures: one folder a key and place of the pictures.

    The place counts, since two sets may have pictures of one name.
    """
    places = sorted({str(image.path.resolve().parent) for image in images})
    name = sha256("\n".join([key.fingerprint(), *places]).encode()).hexdigest()
    return cache / f"{key.encoder.replace('/', '-')}-{name[:12]}"


def extract_features(
    encoder: GridEncoder,
    images: Sequence[CaptionedImage],
    folder: Path,
    *,
    mirror: bool = False,
    dtype: str = "float16",
    device: torch.device | str = "cpu",
    wait: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> FeatureStore:
    """Make the store of these pictures in `folder`, or go on where an earlier run was stopped.

    The encoder runs on `device` and returns to where it was. `wait`: for another process that is making it.

    Raises ImageError for a picture that can't be read; what was encoded before it stays.
    """
    by_id = {image.image_id: image for image in images}
    key = store_key(encoder, mirror=mirror, dtype=dtype)
    home = next(encoder.parameters()).device
    try:
        produce = partial(_encode, encoder.to(device), by_id, mirror)
        return write_store(folder, key, list(by_id), produce, wait=wait, progress=progress)
    finally:
        encoder.to(home)


def _encode(
    encoder: GridEncoder, images: dict[str, CaptionedImage], mirror: bool, image_ids: Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[ImageFeatures]]]:
    device = next(encoder.parameters()).device
    batch_size = CPU_BATCH if device.type == "cpu" else DEVICE_BATCH
    with ThreadPoolExecutor(LOADING_THREADS) as pool:
        load = partial(_pixels, ImageTransform(encoder.preprocessing))
        chunks = [image_ids[start : start + batch_size] for start in range(0, len(image_ids), batch_size)]
        ahead = [pool.submit(load, images[image_id]) for image_id in chunks[0]]
        for chunk, following in zip(chunks, [*chunks[1:], []], strict=True):
            waiting, ahead = ahead, [pool.submit(load, images[image_id]) for image_id in following]
            pixels = torch.stack([future.result() for future in waiting]).to(device)
            with torch.inference_mode(), evaluation_mode(encoder):
                yield chunk, [encoder.frozen_part(view) for view in ([pixels, pixels.flip(-1)] if mirror else [pixels])]


def _pixels(transform: ImageTransform, image: CaptionedImage) -> Tensor:
    return transform(image.load())[0]
