"""The letters that name sizes in this project, and the one check that tensors go through on entry.

==== =======================================  ==== =======================================
B    images                                   T    caption positions
M    captions or samples an image             V    words in the vocabulary
K    beam width                               E    word width
R    regions (cells of the grid)              H    state width
D    region width                             A    attention space
N    queries                                  Hn   heads
==== =======================================  ==== =======================================

Words: *scores* come before the normalizer, *weights* lie on the simplex, *context* comes after the selection, *memory*
is what is attended. Masks are boolean; True means "may attend" or "is a word".
"""

import torch
from torch import Tensor

from captioning.errors import ShapeError


def check_shape(name: str, tensor: Tensor, letters: str, **sizes: int) -> dict[str, int]:
    """Check `tensor` against letters such as "B R D" ("... R D" leaves leading axes free) and return each size.

    `sizes` are known beforehand; a letter that stands twice must have one size. Raises ShapeError with the name, the
    expected letters and sizes, and what came.
    """
    axes = letters.split()
    free = axes[0] == "..."
    named = axes[1:] if free else axes
    shape = tuple(tensor.shape)
    found = dict(sizes)
    fits = len(shape) >= len(named) if free else len(shape) == len(named)
    if fits:
        trailing = shape[len(shape) - len(named) :]
        fits = all(found.setdefault(letter, size) == size for letter, size in zip(named, trailing, strict=True))
    if not fits:
        known = ", ".join(f"{letter} = {size}" for letter, size in sizes.items())
        raise ShapeError(f"{name}: expected ({', '.join(axes)}){' with ' + known if known else ''}, got {shape}")
    return found


def check_mask(name: str, mask: Tensor) -> None:
    """Refuse a mask that is not boolean, since 0/1 numbers and additive masks mean other things elsewhere."""
    if mask.dtype != torch.bool:
        raise ShapeError(
            f"{name}: expected a boolean mask (True = may attend), got {mask.dtype}; "
            "use captioning.attention.masks.from_additive for a mask of 0 and -inf"
        )
