"""EfficientNet-Lite 0 to 4: no squeeze-excite, ReLU6, a stem and head of fixed width.

Tan and Le, "EfficientNet" (ICML 2019), and the Lite variants released beside its TensorFlow code. ImageNet
weights come as Python packages, so a machine with a package index and no other network has a real encoder.
"""

import math
import re
from functools import partial
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from captioning.encoders.cut import CutNetwork, cut_sequence
from captioning.errors import WeightsError
from captioning.features.preprocessing import Preprocessing


class Scaling(NamedTuple):
    """How one member of the family differs from Lite0."""

    width: float
    """Multiplies the channels of every block."""
    depth: float
    """Multiplies the blocks of every group but the first and the last."""
    size: int
    """Side of the square that the weights were trained on, in pixels."""


class Group(NamedTuple):
    """A run of blocks with equal output; only the first of them strides."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    channels: int


SCALINGS = {
    "efficientnet_lite0": Scaling(1.0, 1.0, 224),
    "efficientnet_lite1": Scaling(1.0, 1.1, 240),
    "efficientnet_lite2": Scaling(1.1, 1.2, 260),
    "efficientnet_lite3": Scaling(1.2, 1.4, 280),
    "efficientnet_lite4": Scaling(1.4, 1.8, 300),
}

GROUPS = (
    Group(1, 3, 1, 1, 16),
    Group(2, 3, 2, 6, 24),
    Group(2, 5, 2, 6, 40),
    Group(3, 3, 2, 6, 80),
    Group(3, 5, 1, 6, 112),
    Group(4, 5, 2, 6, 192),
    Group(1, 3, 1, 6, 320),
)

PACKAGED = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2")
"""Those whose weights come as packages."""

STEM_WIDTH, HEAD_WIDTH = 32, 1280

# TensorFlow's decay 0.99 and epsilon 0.001.
BatchNorm = partial(nn.BatchNorm2d, eps=1e-3, momentum=0.01)


class SameConvolution(nn.Conv2d):
    """A convolution without bias whose output has ceil(size / stride) cells, padded as TensorFlow's "SAME".

    An odd pixel of padding goes to the right and below, so padding depends on the input's size.
    """

    def __init__(self, channels: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__(channels, outputs, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C', ceil(H / stride), ceil(W / stride))."""
        (top, bottom), (left, right) = self._padding(maps.shape[-2]), self._padding(maps.shape[-1])
        if (top, left) == (bottom, right):
            return F.conv2d(maps, self.weight, None, self.stride, (top, left), 1, self.groups)
        padded = F.pad(maps, (left, right, top, bottom))
        return F.conv2d(padded, self.weight, None, self.stride, 0, 1, self.groups)

    def _padding(self, size: int) -> tuple[int, int]:
        kernel, stride = self.kernel_size[0], self.stride[0]
        total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        return total // 2, total - total // 2


class InvertedBottleneck(nn.Module):
    """Widen by 1x1, filter each channel by k x k, narrow by 1x1; the input is added where shapes allow."""

    def __init__(self, channels: int, outputs: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        layers: dict[str, nn.Module] = {}
        if expansion > 1:
            layers |= {"expand": SameConvolution(channels, inner, 1), "expand_norm": BatchNorm(inner)}
            layers |= {"expand_activation": nn.ReLU6(inplace=True)}
        layers["depthwise"] = SameConvolution(inner, inner, kernel, stride=stride, groups=inner)
        layers |= {"depthwise_norm": BatchNorm(inner), "depthwise_activation": nn.ReLU6(inplace=True)}
        layers |= {"project": SameConvolution(inner, outputs, 1), "project_norm": BatchNorm(outputs)}
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.outputs = outputs
        self.residual = stride == 1 and channels == outputs

    def forward(self, maps: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C', ceil(H / stride), ceil(W / stride))."""
        inner = maps
        for layer in self.children():
            inner = layer(inner)
        return maps + inner if self.residual else inner


class EfficientNetLite(nn.Module):
    """The whole network: pixels (B, 3, S, S) to logits (B, classes) in the order of ImageNet's classes."""

    def __init__(self, name: str, *, classes: int = 1000) -> None:
        super().__init__()
        self.stem = _convolution_norm_relu(3, STEM_WIDTH, kernel=3, stride=2)
        blocks = _blocks(SCALINGS[name])
        self.blocks = nn.Sequential(*blocks)
        self.head = _convolution_norm_relu(blocks[-1].outputs, HEAD_WIDTH, kernel=1, stride=1)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(HEAD_WIDTH, classes))

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits (B, classes) of pixels (B, 3, S, S)."""
        maps: Tensor = self.head(self.blocks(self.stem(pixels)))
        logits: Tensor = self.classifier(maps.mean(dim=(2, 3)))
        return logits


def names() -> tuple[str, ...]:
    """The names that `build` knows."""
    return tuple(SCALINGS)


def build(name: str, *, image_size: int | None, pretrained: bool) -> tuple[nn.Module, str]:
    """The whole network, random; pictures may have any size."""
    if pretrained:
        raise WeightsError(f"encoder {name}: no library has its weights; use weights: pip, or a local file")
    return EfficientNetLite(name), "random"


def preprocessing(name: str) -> Preprocessing:
    """What the published weights want: (pixel − 127) / 128, bicubic, the centre of a picture 32 px larger."""
    size = SCALINGS[name].size
    return Preprocessing(
        size=size,
        mean=(127 / 255,) * 3,
        deviation=(128 / 255,) * 3,
        interpolation="bicubic",
        crop_fraction=size / (size + 32),
    )


def head(name: str) -> tuple[str, ...]:
    """How the names of the parts begin that no map needs."""
    return ("classifier",)


def cut(network: nn.Module, layer: str | None) -> CutNetwork:
    """The network up to `layer`, "stem", "blocks.5" or "head"; None: before pooling."""
    return cut_sequence(network, layer=layer, containers=("blocks",), head=("classifier",))


def renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state dict of the published packages under this module's names; other names stay as they are."""
    return {_readable(name): tensor for name, tensor in state.items()}


_PUBLISHED_NAMES = (
    (r"^_conv_stem\.", "stem.0."),
    (r"^_bn0\.", "stem.1."),
    (r"^_conv_head\.", "head.0."),
    (r"^_bn1\.", "head.1."),
    (r"^_fc\.", "classifier.1."),
    (r"^_blocks\.", "blocks."),
    (r"\._expand_conv\.", ".expand."),
    (r"\._bn0\.", ".expand_norm."),
    (r"\._depthwise_conv\.", ".depthwise."),
    (r"\._bn1\.", ".depthwise_norm."),
    (r"\._project_conv\.", ".project."),
    (r"\._bn2\.", ".project_norm."),
)


def _readable(name: str) -> str:
    for published, ours in _PUBLISHED_NAMES:
        name = re.sub(published, ours, name)
    return name


def _convolution_norm_relu(channels: int, outputs: int, *, kernel: int, stride: int) -> nn.Sequential:
    convolution = SameConvolution(channels, outputs, kernel, stride=stride)
    return nn.Sequential(convolution, BatchNorm(outputs), nn.ReLU6(inplace=True))


def _blocks(scaling: Scaling) -> list[InvertedBottleneck]:
    blocks, channels = [], STEM_WIDTH
    for group in GROUPS:
        outputs = _rounded_to_eight(group.channels * scaling.width)
        at_an_end = group in (GROUPS[0], GROUPS[-1])
        count = group.blocks if at_an_end else math.ceil(group.blocks * scaling.depth)
        for index in range(count):
            stride = group.stride if index == 0 else 1
            blocks.append(
                InvertedBottleneck(channels, outputs, kernel=group.kernel, stride=stride, expansion=group.expansion)
            )
            channels = outputs
    return blocks


def _rounded_to_eight(channels: float) -> int:
    """The nearest multiple of 8 that takes away no more than a tenth."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8
