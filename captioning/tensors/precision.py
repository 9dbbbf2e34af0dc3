"""The number type that matrix products run in, and a linear map that runs in its input's type."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def compute_dtype(like: Tensor) -> torch.dtype:
    """bfloat16 or float16 under autocast on the tensor's device, else the tensor's own type."""
    kind = like.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else like.dtype


def linear(layer: nn.Linear, inputs: Tensor) -> Tensor:
    """W x + b in the number type of x: autocast made explicit, so that a loop casts its weights only once."""
    bias = None if layer.bias is None else layer.bias.to(inputs.dtype)
    return F.linear(inputs, layer.weight.to(inputs.dtype), bias)


def at_least_float32(tensor: Tensor) -> Tensor:
    """Half precision widened to float32, in which sums of many exponentials are safe; the rest as it is."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
