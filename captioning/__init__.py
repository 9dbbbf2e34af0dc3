"""Soft and hard attention for image captioning: train captioners, caption pictures, run ablations.

The public names are loaded on first use, so that text, metrics and configs work without importing torch.
"""

from typing import Any

__version__ = "0.1.0"
__all__ = ["Captioner", "Ensemble", "Search", "load"]

_HOMES = {
    "Captioner": "captioning.captioner",
    "Ensemble": "captioning.captioner",
    "Search": "captioning.decoding.search",
    "load": "captioning.checkpoint",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'captioning' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
