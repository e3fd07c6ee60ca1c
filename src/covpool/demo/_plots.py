"""The plots of the demo, painted on the axes of a PNG or of a figure in the page."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from covpool._check import require
from covpool.demo._results import PoolResult
from covpool.report import COLORS, GRID, SETTINGS, TEXT, draw

OPAQUE = ("#2568a8", "#c65a1e", "#2c8656", "#7a52b3")  # the page's colours by day
SHOWN = 1e-5  # eigenvalues below this part of the largest are not shown


def plot_png(rows: Sequence[PoolResult], path: Path) -> None:
    """Accuracy, learning curves and spectra side by side."""
    matplotlib = require("matplotlib", "plots")
    figure_class = require("matplotlib.figure", "plots").Figure
    by_day = {TEXT: "#1d2126", GRID: "#d9dde1"}
    with matplotlib.rc_context({key: by_day.get(value, value) for key, value in SETTINGS.items()}):
        figure = figure_class(figsize=(15, 4.2), layout="constrained")
        for axes, paint in zip(figure.subplots(1, 3), (accuracies, curves, spectra), strict=True):
            paint(axes, rows, OPAQUE)
        figure.savefig(path, dpi=110)


def plots_for_page(rows: Sequence[PoolResult]) -> list[str]:
    """The same, each as SVG."""
    return [
        draw("accuracies", partial(accuracies, rows=rows, colors=COLORS), about="Accuracy of every pool"),
        draw("curves", partial(curves, rows=rows, colors=COLORS), about="Test accuracy over the epochs"),
        draw("spectra", partial(spectra, rows=rows, colors=COLORS), about="Eigenvalues by rank"),
    ]


def accuracies(axes: Any, rows: Sequence[PoolResult], colors: Sequence[str]) -> None:
    """The mean with its interval, and a ring for every seed."""
    for place, (row, color) in enumerate(zip(rows, colors, strict=True)):
        low, high = row.interval
        axes.plot([100 * low, 100 * high], [place, place], color=color, linewidth=2.5)
        axes.plot(100 * row.top1, place, "o", color=color, markersize=8)
        axes.plot(
            [100 * top1 for top1 in row.seeds], [place + 0.2] * len(row.seeds), "o", color=color, fillstyle="none"
        )
        text = f"{row.name}: {row.top1:.1%}"
        axes.annotate(text, (100 * row.top1, place), (0, 9), textcoords="offset points", ha="center", color=color)
    axes.set_yticks([])
    axes.margins(x=0.3)  # for what is written above the bars
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("% of test tiles; bar: 95 % interval, rings: seeds")
    axes.set_title("Accuracy after the last epoch")


def curves(axes: Any, rows: Sequence[PoolResult], colors: Sequence[str]) -> None:
    """Test accuracy over the epochs, mean of the seeds."""
    for row, color in zip(rows, colors, strict=True):
        axes.plot(row.curve.x, [100 * y for y in row.curve.y], color=color, label=row.name, marker="o", markersize=3.5)
    axes.locator_params(axis="x", integer=True, nbins=8)
    axes.set_xlabel("epoch")
    axes.set_ylabel("%")
    axes.set_title("Test accuracy, mean of the seeds")
    axes.legend(loc="lower right")


def spectra(axes: Any, rows: Sequence[PoolResult], colors: Sequence[str]) -> None:
    """How eigenvalues fall from the largest on: of the covariance that enters a pool, and after its square root."""
    for row, color in zip(rows, colors, strict=True):
        if row.pool == "isqrt" and row.spectra.after is not None:
            _decay(axes, row.spectra.before, color=color, linestyle="--", label=f"{row.name}: covariance")
            _decay(axes, row.spectra.after, color=color, label=f"{row.name}: its square root, N = 5")
        elif row.pool == "cov":
            _decay(axes, row.spectra.before, color=color, label=row.name)
    axes.set_yscale("log")
    axes.set_ylim(SHOWN, 1.5)
    axes.set_xlabel("eigenvalue number")
    axes.set_ylabel("relative to the largest")
    axes.set_title("What the square root does to the spectrum")
    axes.legend(loc="upper right")


def _decay(
    axes: Any,
    eigenvalues: Tensor,  # (images, c), largest first
    **style: Any,
) -> None:
    relative = (eigenvalues / eigenvalues[:, :1].clamp(min=torch.finfo(eigenvalues.dtype).tiny)).median(0).values
    relative = relative[relative >= SHOWN]
    axes.plot(range(1, len(relative) + 1), relative.tolist(), **style)
