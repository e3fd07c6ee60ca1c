"""The files of the demo: a plot and a page that needs no other file."""

import base64
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError, require
from covpool.demo._compare import CLAIMED, NAMES, TaskComparison, verdict
from covpool.demo._encoders import CONTROLS, FIRST_ORDER
from covpool.demo._packages import PACKAGES
from covpool.io import replacing
from covpool.report import COLORS, GRID, SETTINGS, TEXT, draw, render_page

PLOT, PAGE = "demo.png", "demo.html"
OPAQUE = ("#2568a8", "#c65a1e", "#2c8656", "#7a52b3")  # the page's colors in its light theme
TEMPLATE = Path(__file__).parent / "demo.html.jinja"


def check_folder(out: Path) -> None:
    """Refuse a folder that contains something other than a demo."""
    if out.exists() and not out.is_dir():
        raise CovpoolError(f"--out must be a folder; {out} is a file")
    if out.is_dir() and any(path.name not in (PLOT, PAGE) for path in out.iterdir()):
        raise CovpoolError(f"--out must be a new folder or one of a demo; {out} contains other files")


def write_results(out: Path, comparisons: Sequence[TaskComparison]) -> None:
    """Write the plot and the page of all comparisons that are finished."""
    out.mkdir(parents=True, exist_ok=True)
    _plot_png(comparisons, out / PLOT)
    values = {
        "comparisons": comparisons,
        "plots": [
            draw(f"accuracies{i}", partial(_plot_accuracies, comparison=one), about="Accuracy of every method")
            for i, one in enumerate(comparisons)
        ],
        "examples": [[_data_url(path) for path in comparison.task.examples] for comparison in comparisons],
        "claimed": CLAIMED,
        "claimed_name": NAMES[CLAIMED],
        "verdict": verdict,
        "packages": PACKAGES,
    }
    with replacing(out / PAGE) as file:
        file.write_text(render_page(TEMPLATE, values), encoding="utf-8")


def _data_url(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def _plot_png(comparisons: Sequence[TaskComparison], path: Path) -> None:
    """Plot the accuracies of all comparisons side by side."""
    matplotlib = require("matplotlib", "plots")
    figure_class = require("matplotlib.figure", "plots").Figure
    light = {TEXT: "#1d2126", GRID: "#d9dde1"}
    with matplotlib.rc_context({key: light.get(value, value) for key, value in SETTINGS.items()}):
        figure = figure_class(figsize=(7.2 * len(comparisons), 4.4), layout="constrained")
        for axes, comparison in zip(figure.subplots(1, len(comparisons), squeeze=False)[0], comparisons, strict=True):
            _plot_accuracies(axes, comparison, OPAQUE)
            axes.set_title(comparison.task.title)
        figure.savefig(path, dpi=110)


def _plot_accuracies(axes: Any, comparison: TaskComparison, colors: Sequence[str] = COLORS) -> None:
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
