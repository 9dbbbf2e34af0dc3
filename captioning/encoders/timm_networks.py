"""Timm's networks (extra `timm`): convolutional ones before pooling, transformers as a grid of patches."""

from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from captioning.encoders.cut import CutNetwork, check_stage, map_shape
from captioning.encoders.weights import check_reachable, read_state
from captioning.errors import ConfigError, WeightsError
from captioning.features.preprocessing import INTERPOLATIONS, Preprocessing

PREFIX = "timm/"
BEFORE_POOLING = "forward_features"
"""The map that pooling reads; some networks have a convolution or a norm after their last stage."""


class TimmTrunk(nn.Module):
    """Pixels (B, 3, S, S) to maps (B, D, rows, columns): before pooling, or the output of stage `index`."""

    def __init__(self, network: Any, index: int | None, *, norm: bool = False) -> None:
        super().__init__()
        self.network = network
        self.index = index
        self.norm = norm

    def forward(self, pixels: Tensor) -> Tensor:
        """Maps (B, D, rows, columns)."""
        if self.index is None:
            maps: Tensor = self.network.forward_features(pixels)
            return maps
        (maps,) = self.network.forward_intermediates(
            pixels, indices=[self.index], norm=self.norm, stop_early=True, intermediates_only=True
        )
        return maps


def names() -> tuple[str, ...]:
    """The names that `build` knows; a tag after a dot ("resnet18.a1_in1k") chooses among their weights."""
    return tuple(PREFIX + name for name in _timm().list_models())


def build(name: str, *, image_size: int | None, pretrained: bool) -> tuple[nn.Module, str]:
    """The network without classifier, and where its weights come from; transformers are made for one size."""
    library, model = _timm(), name.removeprefix(PREFIX)
    published = _published(name)
    resized = published.fixed_input_size and image_size is not None
    options = {"img_size": image_size} if resized else {}
    if not pretrained:
        return library.create_model(model, num_classes=0, **options), "random"
    _check_weights(name, published)
    try:
        network = library.create_model(model, pretrained=True, num_classes=0, **options)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise WeightsError(
            f"encoder {name}: its library can't load the weights ({reason}); give a local file"
        ) from error
    return network, f"timm {published.hf_hub_id or published.url}"


def preprocessing(name: str) -> Preprocessing:
    """As the library's weights of this network want it."""
    published = _published(name)
    return Preprocessing(
        size=published.input_size[-1],
        mean=tuple(published.mean),
        deviation=tuple(published.std),
        interpolation=published.interpolation if published.interpolation in INTERPOLATIONS else "bicubic",
        crop_fraction=published.crop_pct,
    )


def head(name: str) -> tuple[str, ...]:
    """How the names of the parts begin that no map needs."""
    classifier = _published(name).classifier
    return (classifier,) if isinstance(classifier, str) else tuple(classifier or ())


def renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Files of this library's networks have the names of this library's networks."""
    return state


def cut(network: nn.Module, layer: str | None) -> CutNetwork:
    """The network up to `layer`, a stage as the library's `feature_info` names it; None: before pooling.

    Transformers have no such map: their default is the last stage, normalized.
    """
    if not hasattr(network, "forward_intermediates"):
        raise ConfigError(f"encoder {PREFIX}{type(network).__name__}: the library can't give this network's maps")
    stages = [stage["module"] for stage in network.feature_info]  # type: ignore[union-attr]
    if layer in (None, BEFORE_POOLING) and _has_map_before_pooling(network):
        trunk = TimmTrunk(network, None)
        return CutNetwork(trunk, {stage: f"network.{stage}" for stage in stages}, BEFORE_POOLING)
    layer = layer or stages[-1]
    check_stage(layer, stages)
    index = stages.index(layer)
    is_last = index == len(stages) - 1
    trunk = TimmTrunk(network, index, norm=is_last)
    network.prune_intermediate_layers([index], prune_norm=not is_last, prune_head=True)  # type: ignore[operator]
    return CutNetwork(trunk, {stage: f"network.{stage}" for stage in stages[: index + 1]}, layer)


def _timm() -> Any:
    try:
        return import_module("timm")  # an extra, and slow to import: only for those who ask for it
    except ModuleNotFoundError as error:
        raise ConfigError("encoders timm/...: timm is not installed; pip install 'captioning[timm]'") from error


def _published(name: str) -> Any:
    try:
        return _timm().get_pretrained_cfg(name.removeprefix(PREFIX))
    except RuntimeError as error:
        raise ConfigError(f"encoder {name}: {error}") from error


def _has_map_before_pooling(network: Any) -> bool:
    if network.pretrained_cfg["fixed_input_size"] or getattr(network, "output_fmt", "NCHW") != "NCHW":
        return False  # a transformer
    shape = map_shape(TimmTrunk(network, None), network.pretrained_cfg["input_size"][-1])
    return len(shape) == 4 and shape[1] == network.num_features


def _check_weights(name: str, published: Any) -> None:
    """Raise WeightsError within seconds where the weights are neither cached nor to be had."""
    if not published.has_weights:
        raise WeightsError(f"encoder {name}: its library has no weights for it; use weights: none or a local file")
    if not published.hf_hub_id:
        check_reachable(published.url)
        return
    hub = import_module("huggingface_hub")
    filename = published.hf_hub_filename or "model.safetensors"
    cached = hub.try_to_load_from_cache(published.hf_hub_id, filename)
    if isinstance(cached, str):
        read_state(Path(cached))  # names the file where it is damaged
    else:
        check_reachable(f"{hub.constants.ENDPOINT}/{published.hf_hub_id}/resolve/main/{filename}")
