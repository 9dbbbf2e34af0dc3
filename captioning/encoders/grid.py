"""A convolutional network, cut before pooling, as an encoder: its last map is a grid of region vectors."""

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from captioning.encoders.cut import CutNetwork, check_stage, map_shape
from captioning.encoders.fingerprint import fingerprint
from captioning.errors import ConfigError, ShapeError
from captioning.features.image_features import ImageFeatures
from captioning.features.preprocessing import Preprocessing


class GridEncoder(nn.Module):
    """Pixels to R = rows x columns region vectors of width D: Xu et al. (2015), section 3.1.1.

    Frozen unless `tune_from` names a stage: then that stage and those after it learn. Frozen means weights, buffers
    and mode: batch-norm and dropout of a frozen stage stay as in evaluation, whatever `train` the parent calls.
    Batch-norm of a tuned stage keeps its statistics too, since a few pictures of a batch say less than those it was
    trained on, unless `tune_statistics`.

    `frozen_part` is what no training changes, so that its maps can be stored; `tuned_part` is the rest.
    """

    def __init__(
        self,
        name: str,
        network: CutNetwork,
        preprocessing: Preprocessing,
        *,
        weights_origin: str,
        tune_from: str | None = None,
        tune_statistics: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.layer = network.layer
        self.preprocessing = preprocessing
        self.weights_origin = weights_origin
        self.tune_from, self.tune_statistics = tune_from, tune_statistics
        self.width, self.rows, self.columns = _grid(name, network, preprocessing.size)
        # With channels last the convolutions of a CPU take about half the time.
        self.trunk = network.trunk.to(memory_format=torch.channels_last)
        self._tuned_modules = _modules_from(network, tune_from)
        self._tuned_start, self.stored_layer = _split(network, tune_from)
        self.requires_grad_(False)
        for parameter in self.parameters_to_tune():
            parameter.requires_grad_(True)
        self.train(self.training)

    def forward(self, pixels: Tensor) -> ImageFeatures:
        """Regions (B, R, D), row by row, of pixels (B, 3, S, S)."""
        return self.tuned_part(self.frozen_part(pixels))

    def frozen_part(self, pixels: Tensor) -> ImageFeatures:
        """The maps of `stored_layer`, which no training changes; the pixels themselves where there is no such layer."""
        size = self.preprocessing.size
        if pixels.dim() != 4 or pixels.shape[1:] != (3, size, size):
            raise ShapeError(f"pixels: expected (B, 3, {size}, {size}), got {tuple(pixels.shape)}")
        return _regions(self._stages(0, self._tuned_start)(pixels.contiguous(memory_format=torch.channels_last)))

    def tuned_part(self, features: ImageFeatures) -> ImageFeatures:
        """What `frozen_part` gave, through the stages that learn; the features themselves where none does."""
        if self.tune_from is None:
            return features
        # Regions lie in memory as a map with channels last does, so nothing is copied.
        maps = features.regions.transpose(1, 2).unflatten(2, (features.rows, features.columns))
        # On a CPU that emulates bfloat16 these convolutions took 23 times as long in it; one with units was not tried.
        with torch.autocast("cpu", enabled=False):
            return _regions(self._stages(self._tuned_start or 0, None)(maps))

    def train(self, mode: bool = True) -> Self:
        """Put the tuned stages, and only them, into training mode (or, with False, into evaluation mode)."""
        super().train(False)
        self.training = mode
        for module in self._tuned_modules:
            module.training = mode and (self.tune_statistics or not isinstance(module, _BatchNorm))
        return self

    def parameters_to_tune(self) -> list[nn.Parameter]:
        """The parameters that learn: those of `tune_from` and of the stages after it; none when frozen."""
        return [parameter for module in self._tuned_modules for parameter in module.parameters(recurse=False)]

    def fingerprint(self) -> str:
        """Sha256 of name, layer and weights (buffers included): equal only where the features are."""
        return fingerprint(self.name, self.layer, self.trunk.state_dict())

    def stored_fingerprint(self) -> str:
        """The same of the frozen part: equal only where what a feature store keeps is."""
        if self.stored_layer is None:
            raise ConfigError(
                f"encoder {self.name}: tuned from its first stage, so it has nothing to store, or no chain of stages"
            )
        return fingerprint(self.name, self.stored_layer, self._stages(0, self._tuned_start).state_dict())

    def _stages(self, start: int, end: int | None) -> nn.Module:
        """The stages from `start` to before `end`; all or none of a network that is no chain of stages."""
        if isinstance(self.trunk, nn.Sequential):
            return self.trunk[start:end]
        return self.trunk if end is None else nn.Identity()

    def describe(self) -> str:
        """One line for a log: what the grid is, where the weights come from, what learns."""
        grid = f"{self.rows} x {self.columns} x {self.width} from {self.preprocessing.size} px"
        learns = f"tuned from {self.tune_from}" if self.tune_from else "frozen"
        return f"encoder {self.name}, layer {self.layer}: {grid}; weights: {self.weights_origin}; {learns}"

    def to_dict(self) -> dict[str, Any]:
        """Plain types from which `rebuild_encoder` makes this encoder again, but for its weights."""
        return {
            "name": self.name,
            "layer": self.layer,
            "preprocessing": self.preprocessing.to_dict(),
            "weights_origin": self.weights_origin,
            "tune_from": self.tune_from,
            "tune_statistics": self.tune_statistics,
        }


def _regions(maps: Tensor) -> ImageFeatures:
    """(B, D, rows, columns) -> (B, R, D)."""
    return ImageFeatures(maps.flatten(2).transpose(1, 2), *maps.shape[-2:])


def _split(network: CutNetwork, tune_from: str | None) -> tuple[int | None, str | None]:
    """The place in the trunk of the first stage that learns (None: none does), and the stage before it.

    Only a chain of stages can be split; any other network has no such stage, and so has one that learns as a whole.
    """
    if tune_from is None:
        return None, network.layer
    places = [name for name, _ in network.trunk.named_children()]
    path = network.stages[tune_from]
    if not isinstance(network.trunk, nn.Sequential) or places.index(path) == 0:
        return 0, None
    before = {place: stage for stage, place in network.stages.items()}
    return places.index(path), before[places[places.index(path) - 1]]


def _grid(name: str, network: CutNetwork, size: int) -> tuple[int, int, int]:
    """(D, rows, columns), as the network itself gives them for pictures of `size` pixels."""
    try:
        shape = map_shape(network.trunk, size)
    except (RuntimeError, ValueError, AssertionError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ConfigError(f"encoder {name}: takes no pictures of {size} x {size} pixels ({reason})") from error
    if len(shape) != 4:
        raise ConfigError(
            f"encoder {name}, layer {network.layer}: expected a map (B, D, rows, columns), got {tuple(shape)}"
        )
    _, width, rows, columns = shape
    return width, rows, columns


def _modules_from(network: CutNetwork, stage: str | None) -> list[nn.Module]:
    """The modules of `stage` and of all after it; libraries register them in the order of their use."""
    if stage is None:
        return []
    check_stage(stage, network.stages)
    names = [name for name, _ in network.trunk.named_modules()]
    modules = [module for _, module in network.trunk.named_modules()]
    return modules[names.index(network.stages[stage]) :]
