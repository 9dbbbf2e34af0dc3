"""A classification network without what comes after its last map: every family is brought to that."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain

import torch
from torch import Tensor, nn

from captioning.errors import ConfigError


@dataclass(frozen=True)
class CutNetwork:
    """The part of a network from the pixels to one of its maps, and the names of its stages."""

    trunk: nn.Module
    """Pixels (B, 3, S, S) to maps (B, D, rows, columns)."""
    stages: Mapping[str, str]
    """The library's name of each stage, in order, and the path of its module in the trunk."""
    layer: str
    """The stage whose output is the map."""


def cut_sequence(
    network: nn.Module, *, layer: str | None, containers: Iterable[str], head: tuple[str, ...]
) -> CutNetwork:
    """Cut a network that calls its children one after the other.

    The children of `containers` are stages of their own, "features.3"; those that start as one of `head`
    are left out. Without `layer`, the last stage that isn't a max-pooling ends the trunk: it would only
    make the grid coarser.
    """
    stages = dict(_stages(network, containers=tuple(containers), head=head))
    names = list(stages)
    if layer is None:
        layer = next(name for name in reversed(names) if not isinstance(stages[name], nn.MaxPool2d))
    check_stage(layer, names)
    kept = names[: names.index(layer) + 1]
    paths = {name: name.replace(".", "_") for name in kept}  # a dot can't stand in a module's own name
    trunk = nn.Sequential()
    for name, path in paths.items():
        trunk.add_module(path, stages[name])
    return CutNetwork(trunk, paths, layer)


def check_stage(stage: str, names: Iterable[str]) -> None:
    """Raise ConfigError, with the nearest names, where `stage` is none of `names`."""
    known = list(names)
    if stage not in known:
        near = get_close_matches(stage, known, n=3) or known[-3:]
        raise ConfigError(f"encoder stage {stage!r}: unknown; nearest: {', '.join(near)} (of {', '.join(known)})")


def map_shape(trunk: nn.Module, size: int) -> torch.Size:
    """The shape (1, D, rows, columns) of the map of a picture of `size` pixels, found without arithmetic."""
    tensors = chain(trunk.named_parameters(), trunk.named_buffers())
    shapes = {name: tensor.detach().to("meta") for name, tensor in tensors}
    was_training = trunk.training
    trunk.eval()
    try:
        with torch.no_grad():
            maps: Tensor = torch.func.functional_call(trunk, shapes, torch.empty(1, 3, size, size, device="meta"))
    finally:
        trunk.train(was_training)
    return maps.shape


def _stages(
    network: nn.Module, *, containers: tuple[str, ...], head: tuple[str, ...]
) -> Iterable[tuple[str, nn.Module]]:
    for name, child in network.named_children():
        if name in containers:
            yield from ((f"{name}.{inner}", stage) for inner, stage in child.named_children())
        elif not name.startswith(head):
            yield name, child
