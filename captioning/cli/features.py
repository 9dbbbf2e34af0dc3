"""`captioning features`: the CNN once over all pictures."""

from collections.abc import Sequence
from pathlib import Path

from captioning.cli.progress import report, show_log
from captioning.cli.settings import parse_training_config
from captioning.errors import ConfigError


def run(arguments: Sequence[str]) -> int:
    """Make the feature store that `captioning train` with the same settings reads; or go on with it."""
    config = parse_training_config(arguments, prog="captioning features")
    show_log()
    import torch

    from captioning.build import build_encoder
    from captioning.encoders.grid import GridEncoder
    from captioning.extraction import extract_features, extraction_device, store_folder, store_key
    from captioning.run.data import open_data

    data = open_data(config.data, seed=config.seed, progress=report("check pictures"))
    torch.manual_seed(config.seed)  # as training does, for an encoder without weights
    encoder = build_encoder(config.model.encoder)
    if data.drawn is not None or not isinstance(encoder, GridEncoder):
        raise ConfigError("features: drawn pictures are kept in memory; there is nothing to store")
    if config.data.features == "none":
        raise ConfigError("data.features: expected auto or a folder, got none")
    key = store_key(encoder, mirror=config.data.mirror)
    images = data.captions.records
    automatic = config.data.features == "auto"
    folder = store_folder(Path(config.data.feature_cache), key, images) if automatic else Path(config.data.features)
    store = extract_features(
        encoder,
        images,
        folder,
        mirror=config.data.mirror,
        device=extraction_device(config.trainer.accelerator),
        progress=report("encode pictures"),
    )
    print(f"{folder}: {len(store)} pictures, {store.rows} x {store.columns} x {store.width}")
    return 0
