"""Colour maps by name, without a plotting library: ten anchors or fewer each, straight lines between them."""

import numpy as np

from captioning.errors import ConfigError

COLOR_MAPS: dict[str, str] = {
    "inferno": "000004 1b0c42 4b0c6b 781c6d a52c60 cf4446 ed6925 fb9a06 f7d03c fcffa4",
    "magma": "000004 180f3e 451077 721f81 9f2f7f cd4071 f1605d fd9567 fec98d fcfdbf",
    "viridis": "440154 482878 3e4a89 31688e 26828e 1f9e89 35b779 6dcd59 b4de2c fde725",
    "hot": "000000 550000 aa0000 ff0000 ff5500 ffaa00 ffff00 ffff80 ffffff",
    "jet": "00007f 0000ff 007fff 00ffff 7fff7f ffff00 ff7f00 ff0000 7f0000",
    "grey": "000000 ffffff",
}
"""Name → evenly spaced colours (hexadecimal RGB) from the value 0 to the value 1."""


def colorize(values: np.ndarray, color_map: str) -> np.ndarray:
    """The colours (..., 3), 8 bits each, of `values` (...) in [0, 1]; beyond the ends, the end's colour.

    Raises ConfigError for a name that is not in `COLOR_MAPS`.
    """
    check_color_map(color_map)
    anchors = np.array([list(bytes.fromhex(color)) for color in COLOR_MAPS[color_map].split()])
    positions = np.linspace(0.0, 1.0, len(anchors))
    channels = [np.interp(values, positions, anchors[:, channel]) for channel in range(3)]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)


def check_color_map(name: str) -> None:
    """Raises ConfigError for a name that is not in `COLOR_MAPS`."""
    if name not in COLOR_MAPS:
        raise ConfigError(f"color map: expected one of {', '.join(COLOR_MAPS)}, got {name!r}")
