"""How long fuzzing goes on, and what may come out of it: documented errors only, in bounded memory."""

import os
import resource
from contextlib import contextmanager

from hypothesis import HealthCheck, settings

from captioning.errors import CaptioningError

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "10"))
"""Inputs for each test; `make fuzz` sets some hundreds."""
MEMORY = 512 * 2**20
"""What all inputs of a test may add to the process's largest size, in bytes."""

COMMON = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
fuzzed = settings(COMMON, max_examples=EXAMPLES)
"""For each test here: so many inputs, however slow the machine."""
seldom = settings(COMMON, max_examples=max(4, EXAMPLES // 4))
"""For what takes a tenth of a second an input."""


@contextmanager
def documented_errors_only():
    """A CaptioningError with a message on one line passes; anything else fails the test."""
    told = "an error"
    try:
        yield
    except CaptioningError as error:
        told = str(error)
    assert len(told.splitlines()) == 1, told


def peak():
    """The largest size that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
