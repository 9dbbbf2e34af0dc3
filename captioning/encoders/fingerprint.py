"""Which encoder made these features: a hash of what they depend on."""

from collections.abc import Mapping
from hashlib import sha256

import torch
from torch import Tensor


def fingerprint(name: str, layer: str, tensors: Mapping[str, Tensor]) -> str:
    """Sha256 of name, layer and weights, buffers included: equal only where the features are."""
    digest = sha256(f"{name}\n{layer}\n".encode())
    for key, tensor in sorted(tensors.items()):
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
