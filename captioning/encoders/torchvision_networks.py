"""Torchvision's convolutional classification networks: all it knows of each is read from the library."""

import re

import torchvision
from torch import Tensor, nn

from captioning.encoders.cut import CutNetwork, cut_sequence
from captioning.encoders.weights import check_download, load_state, read_state
from captioning.features.preprocessing import Preprocessing

_TRANSFORMERS = ("vit", "swin", "maxvit")
_CONTAINERS = ("features", "layers", "trunk_output")
_HEAD = ("avgpool", "classifier", "dropout", "fc", "aux", "AuxLogits")
# These two rescale their input from ImageNet's mean and deviation to 1/2 and 1/2 inside the network, once
# they have weights; the preprocessing does it in one step instead.
_RESCALED = ("googlenet", "inception_v3")


def names() -> tuple[str, ...]:
    """The names that `build` knows, as torchvision spells them."""
    every = torchvision.models.list_models(module=torchvision.models)
    return tuple(name for name in every if not name.startswith(_TRANSFORMERS))


def build(name: str, *, image_size: int | None, pretrained: bool) -> tuple[nn.Module, str]:
    """The whole network and where its weights come from; these networks take pictures of any size."""
    options = {"init_weights": True} if name in _RESCALED else {}
    network: nn.Module = torchvision.models.get_model(name, weights=None, **options)
    if not pretrained:
        return network, "random"
    published = torchvision.models.get_model_weights(name).DEFAULT
    state = renamed(read_state(check_download(published.url)))
    load_state(network, state, origin=str(published), head=head(name))
    return network, f"torchvision {published}"


def preprocessing(name: str) -> Preprocessing:
    """As the library's newest weights of this network want it."""
    transform = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    (size,), (resized,) = transform.crop_size, transform.resize_size
    half = (0.5, 0.5, 0.5)
    return Preprocessing(
        size=size,
        mean=half if name in _RESCALED else tuple(transform.mean),
        deviation=half if name in _RESCALED else tuple(transform.std),
        interpolation=transform.interpolation.value,
        crop_fraction=size / resized,
    )


def head(name: str) -> tuple[str, ...]:
    """How the names of the parts begin that no map needs."""
    return _HEAD


def renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Old DenseNet files write "norm.1" where the network now has "norm1"; all else stays as it is."""
    old = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.(\d)")
    if not any(old.search(key) for key in state):
        return state
    return {old.sub(r"\1\2", key): tensor for key, tensor in state.items()}


def cut(network: nn.Module, layer: str | None) -> CutNetwork:
    """The network up to `layer`, named as in the library ("layer3", "features.28"); None: before pooling."""
    if isinstance(network, torchvision.models.DenseNet):
        network.features.add_module("relu5", nn.ReLU())  # a function in the library's forward, so no child
    return cut_sequence(network, layer=layer, containers=_CONTAINERS, head=_HEAD)
