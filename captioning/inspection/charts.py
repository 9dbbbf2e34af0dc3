"""The page's charts as SVG."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from captioning.charting import STYLE, marker, svg
from captioning.inspection.averages import Average


def map_and_words(mean_map: np.ndarray, curves: Mapping[str, Sequence[float]]) -> str:
    """The mean map (rows, columns), and a panel a curve over the words of a caption."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.9 + 2.5 * len(curves), 2.7), layout="constrained")
        panels = figure.subplots(1, 1 + len(curves), squeeze=False)[0]
        drawn = panels[0].imshow(mean_map, vmin=0, cmap="inferno")
        panels[0].set(title="mean map", xticks=[], yticks=[])
        figure.colorbar(drawn, ax=panels[0], shrink=0.8)
        for panel, (name, values) in zip(panels[1:], curves.items(), strict=True):
            panel.plot(np.arange(1, len(values) + 1), values, marker="o", ms=3)
            panel.set(title=name, xlabel="word of the caption")
            panel.set_ylim(bottom=0)
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        return svg(figure)


def rises(rise: Mapping[str, Average]) -> str:
    """A bar a kind of map, with its interval."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.2, 0.9 + 0.35 * len(rise)), layout="constrained")
        panel = figure.subplots()
        for row, each in enumerate(rise.values()):
            panel.barh(row, each.value, height=0.6, color="C0")
            panel.plot([each.low, each.high], [row, row], color="#222", linewidth=1.6)
        panel.axvline(0, color="#999", linewidth=1)
        panel.set_yticks(range(len(rise)), list(rise))
        panel.invert_yaxis()
        panel.set_xlabel("rise of the loss, nats a word")
        return svg(figure)


def removal_curves(
    cells: Sequence[int], deletion: Mapping[str, Sequence[float]], insertion: Mapping[str, Sequence[float]]
) -> str:
    """Two panels: cells removed, and put back; a line an order."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 3.2), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for panel, curves, label in zip(panels, (deletion, insertion), ("removed", "put back"), strict=True):
            for place, (name, values) in enumerate(curves.items()):
                panel.plot(cells, values, marker=marker(place), ms=3.5, linewidth=1.4, label=name.replace("_", " "))
            panel.set_xlabel(f"cells {label}, of {cells[-1]}")
        panels[0].set_ylabel("mean log-probability of the word")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
        return svg(figure)
