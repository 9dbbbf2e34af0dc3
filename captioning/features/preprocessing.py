"""How a picture becomes the numbers that an encoder was trained on."""

from dataclasses import asdict, dataclass
from typing import Any

from captioning.errors import ConfigError

FITS = ("crop", "squash", "pad")
INTERPOLATIONS = ("bilinear", "bicubic", "lanczos", "nearest")


@dataclass(frozen=True)
class Preprocessing:
    """(pixel / 255 − mean) / deviation on a square of `size` pixels; read from the encoder, kept in the checkpoint."""

    size: int
    """Side of the square input, in pixels."""
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    """Subtracted from each of R, G, B, on the scale 0..1."""
    deviation: tuple[float, float, float] = (0.229, 0.224, 0.225)
    """Each of R, G, B is divided by this, on the scale 0..1."""
    interpolation: str = "bilinear"
    """One of `INTERPOLATIONS`; antialiased when shrinking."""
    fit: str = "crop"
    """crop: the centre square; squash: the whole picture, stretched; pad: the whole picture on a grey square."""
    crop_fraction: float = 1.0
    """With `crop`, the side of the square as a part of the shorter side (0.875 is the classic 224 of 256)."""

    def __post_init__(self) -> None:
        if self.fit not in FITS:
            raise ConfigError(f"preprocessing fit: expected one of {', '.join(FITS)}, got {self.fit!r}")
        if self.interpolation not in INTERPOLATIONS:
            expected = ", ".join(INTERPOLATIONS)
            raise ConfigError(f"preprocessing interpolation: expected one of {expected}, got {self.interpolation!r}")
        if self.size < 1 or not 0 < self.crop_fraction <= 1:
            raise ConfigError(
                "preprocessing: expected size >= 1 and 0 < crop_fraction <= 1, "
                f"got size {self.size} and crop_fraction {self.crop_fraction}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, for JSON and for the key of a feature store."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Preprocessing":
        """The inverse of `to_dict`."""
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        return cls(**fields)
