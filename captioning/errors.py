"""The exceptions a user may meet. Each message gives the name, what was expected, what came, and the way out."""

from pathlib import Path


class CaptioningError(Exception):
    """Base of every error that is the input's fault, not the program's: the commands print it without a traceback."""

    def __str__(self) -> str:
        """The message alone and on one line, whatever names it holds; also where it comes out of a loader's worker,
        which puts its traceback around it."""
        text = super().__str__()
        _, own_name, message = text.rpartition(f"{type(self).__module__}.{type(self).__qualname__}: ")
        return " ".join((message if own_name and text.startswith("Caught ") else text).splitlines()).strip()


class ConfigError(CaptioningError):
    """A setting is unknown, out of range or contradicts another one."""


class DataError(CaptioningError):
    """Captions, splits or ids that can't be read or don't fit together."""


class ImageError(CaptioningError):
    """A file that can't be read as a picture."""


class ShapeError(CaptioningError, ValueError):
    """A tensor whose shape, type or mask is not what the function's docstring asks for."""


class StoreError(CaptioningError):
    """A feature store that is damaged or was made otherwise than this run asks for."""


class WeightsError(CaptioningError):
    """Encoder weights that are missing, damaged or of another network."""


class CheckpointError(CaptioningError):
    """A checkpoint that is damaged, or does not fit the vocabulary, encoder or version at hand."""


class TrainingError(CaptioningError):
    """Training that can't come to anything, such as attention that gets no gradient."""


class DiskError(CaptioningError):
    """A file that can't be written, such as on a full disk; what was there before is whole."""

    def __init__(self, path: Path | str, reason: str) -> None:
        """`reason` in the system's words, such as "No space left on device"."""
        super().__init__(
            f"{path}: can't be written ({reason}); files written before are whole, make room and run again"
        )
        self.reason = reason


class ProcessError(CaptioningError):
    """One of the processes of a run has died, or they do not know of each other."""
