"""Attention on plain tensors: score → mask → normalize → select. Stands alone; needs torch only."""

from captioning.attention import masks
from captioning.attention.additive import additive
from captioning.attention.attention import Attention, Memory
from captioning.attention.locality import LOCALITY
from captioning.attention.normalizers import NORMALIZERS, softmax
from captioning.attention.scores import SCORES, dot, scaled_dot
from captioning.attention.selection import SELECTIONS, Attended

__all__ = [
    "LOCALITY",
    "NORMALIZERS",
    "SCORES",
    "SELECTIONS",
    "Attended",
    "Attention",
    "Memory",
    "additive",
    "dot",
    "masks",
    "scaled_dot",
    "softmax",
]
