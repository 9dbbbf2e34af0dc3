"""Attention on plain tensors: score → mask → normalize → select. Stands alone; needs torch only."""

from captioning.attention import masks
from captioning.attention.additive import additive, concat
from captioning.attention.attended import Attended
from captioning.attention.attention import Attention, Memory
from captioning.attention.dot_product import scaled_dot_product_attention
from captioning.attention.locality import LOCALITY
from captioning.attention.multihead import HeadMemory, MultiHeadAttention
from captioning.attention.normalizers import NORMALIZERS, log_softmax, softmax
from captioning.attention.positions import GRID_POSITIONS, POSITIONS, RelativePositions
from captioning.attention.scored import Scored, ValuesWithOwn
from captioning.attention.scores import SCORES, dot, general, scaled_dot
from captioning.attention.selection import SELECTIONS, Gumbel, Mixed
from captioning.attention.sparse import entmax15, sparsemax

__all__ = [
    "GRID_POSITIONS",
    "LOCALITY",
    "NORMALIZERS",
    "POSITIONS",
    "SCORES",
    "SELECTIONS",
    "Attended",
    "Attention",
    "Gumbel",
    "HeadMemory",
    "Memory",
    "Mixed",
    "MultiHeadAttention",
    "RelativePositions",
    "Scored",
    "ValuesWithOwn",
    "additive",
    "concat",
    "dot",
    "entmax15",
    "general",
    "log_softmax",
    "masks",
    "scaled_dot",
    "scaled_dot_product_attention",
    "softmax",
    "sparsemax",
]
