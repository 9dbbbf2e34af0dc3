"""The least time that work can take on this machine, from rates measured in the same run.

floor = products ÷ rate of torch.mm of 2048² + bytes moved ÷ bandwidth + tanh count ÷ tanh rate
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

SIDE = 2048
COPIED = 1 << 26
"""Elements of the copy that measures the bandwidth: 256 MiB of float32, larger than any cache."""
ANGLES = 1 << 20
"""Elements of the tensor that measures tanh: about what one step of a batch has to do at once."""


@dataclass(frozen=True)
class Rates:
    """What this machine does a second in one number type."""

    operations: float
    """Multiplications and additions in torch.mm."""
    bandwidth: float
    """Bytes read plus bytes written."""
    tanhs: float
    """Values of tanh."""


@dataclass(frozen=True)
class Work:
    """What has to be done, however it is done."""

    operations: float = 0.0
    """Multiplications and additions in matrix products."""
    elements: float = 0.0
    """Numbers read or written in main memory, in the number type of the computation."""
    full_elements: float = 0.0
    """The same in float32 whatever the computation's type (master weights, optimizer state, scores)."""
    tanhs: float = 0.0
    """Values of tanh; a sigmoid is one, too."""

    def __add__(self, other: "Work") -> "Work":
        return Work(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def __mul__(self, times: float) -> "Work":
        return Work(*(getattr(self, name) * times for name in self.__dataclass_fields__))

    def seconds(self, rates: Rates, dtype: torch.dtype) -> float:
        """The floor."""
        moved = self.elements * dtype.itemsize + self.full_elements * torch.float32.itemsize
        return self.operations / rates.operations + moved / rates.bandwidth + self.tanhs / rates.tanhs


def product(rows: float, inputs: int, outputs: int) -> Work:
    """One matrix product (rows, inputs) x (inputs, outputs), its operands apart."""
    return Work(operations=2.0 * rows * inputs * outputs)


def measure_rates(dtype: torch.dtype) -> Rates:
    """The machine's rates now, with the threads that torch has now."""
    left, right = torch.randn(2, SIDE, SIDE).to(dtype)
    source = torch.ones(COPIED)
    target = torch.empty_like(source)
    angles = torch.linspace(-3, 3, ANGLES).to(dtype)
    values = torch.empty_like(angles)
    return Rates(
        operations=2 * SIDE**3 / _typical_seconds(lambda: torch.mm(left, right)),
        bandwidth=2 * source.nbytes / _typical_seconds(lambda: target.copy_(source)),
        tanhs=ANGLES / _typical_seconds(lambda: torch.tanh(angles, out=values)),
    )


def typical(measured: Sequence[Rates]) -> Rates:
    """The median of each rate."""
    return Rates(*(median(getattr(each, name) for each in measured) for name in Rates.__dataclass_fields__))


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _typical_seconds(call: Callable[[], object]) -> float:
    call()
    return median(seconds(call) for _ in range(5))
