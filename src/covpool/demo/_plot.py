"""The plot of the demo, for a PNG file and for the page."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from covpool._check import require
from covpool.demo._compare import Comparison
from covpool.demo._encoders import CONTROLS, FIRST_ORDER
from covpool.report import COLORS, GRID, SETTINGS, TEXT, draw

OPAQUE = ("#2568a8", "#c65a1e", "#2c8656", "#7a52b3")  # the page's colors in its light theme


def plot_png(comparisons: Sequence[Comparison], path: Path) -> None:
    """Plot the accuracies of all comparisons side by side."""
    matplotlib = require("matplotlib", "plots")
    figure_class = require("matplotlib.figure", "plots").Figure
    light = {TEXT: "#1d2126", GRID: "#d9dde1"}
    with matplotlib.rc_context({key: light.get(value, value) for key, value in SETTINGS.items()}):
        figure = figure_class(figsize=(7.2 * len(comparisons), 4.4), layout="constrained")
        for axes, comparison in zip(figure.subplots(1, len(comparisons), squeeze=False)[0], comparisons, strict=True):
            accuracies(axes, comparison, OPAQUE)
            axes.set_title(comparison.task.title)
        figure.savefig(path, dpi=110)


def plot_for_page(comparison: Comparison, name: str) -> str:
    """Draw one comparison as SVG."""
    return draw(name, partial(accuracies, comparison=comparison, colors=COLORS), about="Accuracy of every method")


def accuracies(axes: Any, comparison: Comparison, colors: Sequence[str]) -> None:
    """Plot every accuracy with its interval: first order, second order and controls in a color each."""
    first, second, control = colors[:3]
    for place, result in enumerate(comparison.results):
        color = first if result.method == FIRST_ORDER else control if result.method in CONTROLS else second
        axes.plot([100 * end for end in result.interval], [place, place], color=color, linewidth=2.5)
        axes.plot(100 * result.accuracy, place, "o", color=color, markersize=8)
        text = f"{result.name}: {100 * result.accuracy:.1f}"
        at = (100 * result.accuracy, place)
        axes.annotate(text, at, (0, 9), textcoords="offset points", ha="center", color=color)
    axes.set_yticks([])
    axes.margins(x=0.35)  # room for the text above the bars
    axes.set_ylim(len(comparison.results) - 0.5, -0.9)
    axes.set_xlabel(f"% of {comparison.tested:,} test {comparison.task.unit}; bar: 95 % interval")
