"""How all charts of reports look, and how they become SVG."""

from io import StringIO
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "captioning",
    "font.size": 9.0,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=[*map(mpl.colormaps["tab20"], [*range(0, 20, 2), *range(1, 20, 2)])]),
}
"""For `matplotlib.rc_context`."""
_MARKERS = "osD^vP*X<>hd"


def marker(place: int) -> str:
    """Of the line with this number."""
    return _MARKERS[place % len(_MARKERS)]


def svg(figure: Figure) -> str:
    """The same text for the same figure."""
    stream = StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()
