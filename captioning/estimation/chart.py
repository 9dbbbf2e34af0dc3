"""A comparison of estimators as a picture: variance, bias and cost of each, in one row."""

from io import BytesIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from captioning.estimation.candidates import ESTIMATORS
from captioning.estimation.comparison import Comparison, Measured
from captioning.estimators.variance import SURE

_STYLE: Any = {"font.size": 9.0, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10.0}
_COLORS = dict(zip(ESTIMATORS, ("#1f6fb4", "#2a8a4a", "#c4541a", "#777777"), strict=True))


def chart(comparison: Comparison, part: str) -> bytes:
    """PNG of one part of the gradient; biased estimators are hollow."""
    rows = comparison.rows
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11.0, 1.3 + 0.24 * len(rows)), layout="constrained")
        variance, bias, cost = figure.subplots(1, 3, sharey=True, width_ratios=[3, 2, 1.5])
        for place, row in enumerate(rows):
            _points(variance, bias, cost, row, part, place)
        variance.set(xscale="log", title=f"variance (gradient of the {part})", ylim=(len(rows) - 0.4, -0.6))
        variance.set_yticks(range(len(rows)), [str(row.candidate) for row in rows])
        bias.set(xscale="log", title="bias; grey: what chance allows" if comparison.paths else "bias: unknown")
        cost.set(xlim=(0, None), title="ms an estimate")
        for axes in (variance, bias, cost):
            axes.grid(axis="x", color="#dddddd", linewidth=0.6)
            axes.set_axisbelow(True)
        stream = BytesIO()
        figure.savefig(stream, format="png", dpi=120)
    return stream.getvalue()


def _points(variance: Axes, bias: Axes, cost: Axes, row: Measured, part: str, place: int) -> None:
    quality, color = row.qualities[part], _COLORS[row.candidate.estimator]
    face = "white" if quality.biased else color
    style: Any = {"marker": "o", "markersize": 5, "color": color, "markerfacecolor": face, "linestyle": "none"}
    if quality.variance > 0:
        variance.plot([quality.variance], [place], **style)
    if quality.bias is not None:
        bias.barh(place, SURE * quality.bias_error, height=0.7, color="#e4e4e4")
        bias.plot([quality.bias], [place], **style)
    cost.plot([1e3 * row.seconds], [place], **style)
