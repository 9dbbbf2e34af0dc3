"""The report's charts as SVG: differences with their intervals, learning curves, score against cost."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from captioning.ablation.comparison import Comparison
from captioning.charting import STYLE, marker, svg

IMAGES_COLOR, SEEDS_COLOR = "#1f6fb4", "#c4541a"
Curve = tuple[Sequence[float], Sequence[float]]
"""Epochs and values."""


def forest(comparisons: Sequence[Comparison]) -> str:
    """A panel a measure, a row a variant: the difference from the reference, with both intervals."""
    measures = list(dict.fromkeys(each.measure for each in comparisons))
    variants = list(dict.fromkeys(each.variant for each in comparisons))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.8 + 3.4 * len(measures), 1.3 + 0.42 * len(variants)), layout="constrained")
        axes = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
        for panel, measure in zip(axes, measures, strict=True):
            _forest_panel(panel, [each for each in comparisons if each.measure == measure], variants)
            panel.set_xlabel(f"{measure}: difference from the reference")
        axes[0].set_yticks(range(len(variants)), variants)
        axes[0].set_ylim(len(variants) - 0.4, -0.6)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
        return svg(figure)


def _forest_panel(panel: Axes, comparisons: Sequence[Comparison], variants: Sequence[str]) -> None:
    panel.axvline(0, color="#999", linewidth=1)
    for each in comparisons:
        row = variants.index(each.variant)
        _interval(panel, row - 0.12, each.difference, each.low, each.high, IMAGES_COLOR, "other images")
        if each.training is not None and np.isfinite(each.training.low):
            low, high = each.training.low, each.training.high
            _interval(panel, row + 0.12, each.difference, low, high, SEEDS_COLOR, "other trainings")
    handles, labels = panel.get_legend_handles_labels()
    kept = dict(zip(labels, handles, strict=True))
    for handle, label in zip(handles, labels, strict=True):
        if kept[label] is not handle:
            handle.set_label("")


def _interval(panel: Axes, row: float, middle: float, low: float, high: float, color: str, label: str) -> None:
    panel.plot([low, high], [row, row], color=color, linewidth=2, solid_capstyle="butt")
    panel.plot([middle], [row], "o", color=color, markersize=5, label=label)


def learning_curves(curves: Mapping[str, Sequence[Curve]], measure: str) -> str:
    """Variant -> a curve a seed: the seeds thin, their mean thick."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        panel = figure.subplots()
        for place, (variant, of_seeds) in enumerate(curves.items()):
            color = f"C{place}"
            for epochs, values in of_seeds:
                panel.plot(epochs, values, color=color, linewidth=0.7, alpha=0.45)
            panel.plot(*_mean_curve(of_seeds), color=color, linewidth=2, marker=marker(place), ms=4, label=variant)
        panel.set_xlabel("passes over the training images")
        panel.set_ylabel(measure)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside right upper", frameon=False)
        return svg(figure)


def _mean_curve(curves: Sequence[Curve]) -> Curve:
    """Over the curves that have an epoch."""
    values: dict[float, list[float]] = {}
    for curve in curves:
        for epoch, value in zip(*curve, strict=True):
            values.setdefault(epoch, []).append(value)
    epochs = sorted(values)
    return epochs, [float(np.mean(values[epoch])) for epoch in epochs]


def score_against_cost(
    scores: Mapping[str, Sequence[float]], costs: Mapping[str, Mapping[str, Sequence[float]]], measure: str
) -> str:
    """Name of a cost -> variant -> its runs' costs: a panel each, a point a variant, bars from least to most."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.6 + 2.7 * len(costs), 3.2), layout="constrained")
        axes = figure.subplots(1, len(costs), sharey=True, squeeze=False)[0]
        for panel, (name, of_variants) in zip(axes, costs.items(), strict=True):
            for place, (variant, values) in enumerate(scores.items()):
                x, y = np.mean(of_variants[variant]), np.mean(values)
                across = [[x - min(of_variants[variant])], [max(of_variants[variant]) - x]]
                along = [[y - min(values)], [max(values) - y]]
                style = {"fmt": marker(place), "color": f"C{place}", "markersize": 5, "elinewidth": 0.8}
                panel.errorbar([x], [y], yerr=along, xerr=across, label=variant, **style)
            panel.set_xlabel(name)
            panel.xaxis.set_major_locator(MaxNLocator(4))
        axes[0].set_ylabel(measure)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
        return svg(figure)
