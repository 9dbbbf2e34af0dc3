"""From the data part of a config to caption sets, and to where their pictures come from."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from captioning.captioner import Encoder
from captioning.config import DataConfig
from captioning.data.formats import read_captions
from captioning.data.inspection import PictureFacts, inspect_pictures
from captioning.data.known_sets import compare_sizes
from captioning.data.records import CaptionedImage, CaptionSet
from captioning.data.shard_stream import ScannedShards, scan_shards
from captioning.data.sources import PictureFiles, Pictures, StoredFeatures
from captioning.data.splits import FRACTIONS
from captioning.data.synthetic import DrawnSet, draw_set
from captioning.data.webdataset import find_shards, fingerprint
from captioning.encoders.grid import GridEncoder
from captioning.encoders.small import CellEncoder
from captioning.errors import ConfigError, DataError
from captioning.extraction import extract_features, store_folder, store_key
from captioning.features.store import INDEX, FeatureStore

Progress = Callable[[int, int], None]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunData:
    """The captions of a run and, for the drawn set, its pictures."""

    captions: CaptionSet
    """All splits."""
    drawn: DrawnSet | None = None
    """The drawn set, where it is one."""
    shards: ScannedShards | None = None
    """The shards that training streams from, where it does."""
    skipped: tuple[PictureFacts, ...] = ()
    """The pictures that were left out since they can't be read (`on_bad_image: skip`)."""

    def picture(self, record: CaptionedImage) -> Image.Image:
        """One picture, upright RGB."""
        if self.drawn is None:
            return record.load()
        return Image.fromarray(self.drawn.pixels[self.captions.records.index(record)])


def open_data(
    config: DataConfig,
    *,
    seed: int,
    check_files: bool = True,
    fractions: Mapping[str, float] = FRACTIONS,
    progress: Progress | None = None,
) -> RunData:
    """Read the caption file, or draw the drawn set; `check_files` leaves out images without a picture, and with
    `on_bad_image: skip` those whose picture can't be read. Tells the sizes, and what was left out. `fractions`: the
    part of each split of a file that states none.

    Raises DataError."""
    if config.format == "drawn":
        val = max(100, config.drawn_train // 20)
        drawn = draw_set(train=config.drawn_train, val=val, test=config.drawn_test, seed=seed)
        return RunData(_first_training_images(drawn.captions, config.train_images), drawn)
    if config.captions is None:
        raise ConfigError(
            "data.captions: expected the caption file, got none; give --data.captions FILE, or --data.format drawn"
        )
    if config.stream:
        return _open_stream(config, progress)
    path = Path(config.captions)
    captions = read_captions(
        config.captions,
        format_name=None if config.format == "auto" else config.format,
        images=None if config.images is None else Path(config.images),
        split_lists=_split_lists(config.splits, path.parent),
        restval="train" if config.restval_joins_train else "restval",
        fractions=fractions,
        check_files=check_files,
    )
    skipped: list[PictureFacts] = []
    if check_files and config.on_bad_image == "skip":
        captions, skipped = _leave_out_bad(captions, progress)
    _tell(captions, config.captions, skipped)
    return RunData(_first_training_images(captions, config.train_images), skipped=tuple(skipped))


def _open_stream(config: DataConfig, progress: Progress | None) -> RunData:
    source = str(config.captions)
    if config.features != "none":
        raise ConfigError("data.stream: expected data.features none, since what comes as a stream is stored nowhere")
    folder = Path(config.feature_cache) / f"shards-{fingerprint(find_shards(source))[:12]}"
    shards = scan_shards(source, folder, skip_bad=config.on_bad_image == "skip", progress=progress)
    _tell(shards.captions, source, shards.skipped)
    return RunData(shards.captions, shards=shards, skipped=shards.skipped)


def _leave_out_bad(captions: CaptionSet, progress: Progress | None) -> tuple[CaptionSet, list[PictureFacts]]:
    """Before training, not in it: so every process, epoch and sampler works on the same set."""
    bad = [facts for facts in inspect_pictures(captions.records, progress=progress) if facts.fault]
    ids = {facts.image.image_id for facts in bad}
    kept = tuple(record for record in captions.records if record.image_id not in ids)
    if not kept:
        raise DataError(f"on_bad_image skip: expected a picture that can be read, got none; {bad[0].fault}")
    return replace(captions, records=kept), bad


def _tell(captions: CaptionSet, path: str, skipped: Sequence[PictureFacts]) -> None:
    for note in (*captions.notes, *compare_sizes(captions)):
        _log.warning("%s: %s", path, note)
    for facts in skipped:
        _log.warning("skipped %s", facts.fault)
    sizes = [f"{split} {count.images} images, {count.captions} captions" for split, count in captions.counts().items()]
    _log.warning("%s: %s%s", path, "; ".join(sizes), f"; {len(skipped)} images skipped" if skipped else "")


def open_pictures(
    config: DataConfig, data: RunData, encoder: Encoder, *, device: str = "cpu", progress: Progress | None = None
) -> Pictures:
    """Where batches get their pictures: the drawn arrays, picture files, or a feature store (made if need be)."""
    if data.drawn is not None:
        return data.drawn.pictures(encoder.preprocessing)
    if isinstance(encoder, CellEncoder) or config.features == "none" or encoder.stored_layer is None:
        if config.features not in ("none", "auto"):
            raise ConfigError(
                "data.features: a store holds what the frozen part of an encoder saw; this one has none: give none"
            )
        return PictureFiles(encoder.preprocessing, mirror=config.mirror)
    store = _open_store(config, data.captions, encoder, device=device, progress=progress)
    return StoredFeatures(store, views=len(store.key.views) if config.mirror else 1)


def _open_store(
    config: DataConfig, captions: CaptionSet, encoder: GridEncoder, *, device: str, progress: Progress | None
) -> FeatureStore:
    key = store_key(encoder, mirror=config.mirror)
    if config.features != "auto":
        store = FeatureStore.open(config.features, key)
        missing = [record.image_id for record in captions.records if record.image_id not in store]
        if missing:
            raise DataError(
                f"feature store {config.features}: {len(missing)} pictures of the caption file are not in it, "
                f"such as {missing[0]}; add them with `captioning features`"
            )
        return store
    cache = Path(config.feature_cache)
    with_mirror = store_folder(cache, store_key(encoder, mirror=True), captions.records)
    # A store with mirror images holds the plain ones too, so what was trained with them is scored without a new one.
    mirror = config.mirror or (with_mirror / INDEX).is_file()
    folder = with_mirror if mirror else store_folder(cache, key, captions.records)
    # The processes of a run may all start at once: the first makes the store, the others wait for it.
    return extract_features(
        encoder, captions.records, folder, mirror=mirror, device=device, wait=True, progress=progress
    )


def _split_lists(splits: Mapping[str, str], folder: Path) -> dict[str, Path] | None:
    return {name: folder / path for name, path in splits.items()} or None


def _first_training_images(captions: CaptionSet, most: int | None) -> CaptionSet:
    if most is None:
        return captions
    train = captions.split("train").records[:most]
    others = tuple(record for record in captions.records if record.split != "train")
    return replace(captions, records=train + others)
