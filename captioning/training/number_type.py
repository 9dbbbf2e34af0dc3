"""Which number type to train in: half precision only where the machine is faster in it."""

import logging
import time

import torch

from captioning.extraction import extraction_device

AUTO, HALF, SINGLE = "auto", "bf16-mixed", "32-true"
SIDE, TRIALS = 256, 7  # As large as a decoder's products, and a quarter of a second where half precision is emulated.
_log = logging.getLogger(__name__)


def choose_precision(asked: str, accelerator: str) -> str:
    """Lightning's name of the precision: what was asked for; `auto` takes bf16-mixed where products are faster in it.

    A processor without instructions for bfloat16 computes with it a hundred times slower than in float32, and
    nothing but the clock tells; so the log says it where bf16 was asked for.
    """
    if asked not in (AUTO, HALF) or half_is_faster(extraction_device(accelerator)):
        return HALF if asked == AUTO else asked
    if asked == AUTO:
        return SINGLE
    _log.warning("trainer.precision bf16-mixed: this machine is slower in it; --trainer.precision auto takes float32")
    return asked


def half_is_faster(device: str) -> bool:
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return _seconds(torch.bfloat16) < _seconds(torch.float32)


def _seconds(dtype: torch.dtype) -> float:
    """Processor time of the shortest of a few products of matrices: other processes must not change the choice."""
    matrix = torch.ones(SIDE, SIDE, dtype=dtype)
    taken = []
    for _ in range(TRIALS):
        started = time.process_time()
        torch.mm(matrix, matrix)
        taken.append(time.process_time() - started)
    return min(taken)
