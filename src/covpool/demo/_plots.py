"""The plots of the demo, for a PNG file and for the page."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from covpool._check import require
from covpool.demo._results import PoolResult
from covpool.report import COLORS, GRID, SETTINGS, TEXT, draw

OPAQUE = ("#2568a8", "#c65a1e", "#2c8656", "#7a52b3")  # the page's colors in its light theme
SHOWN = 1e-5  # smallest eigenvalue shown, relative to the largest


def plot_png(results: Sequence[PoolResult], path: Path) -> None:
    """Plot accuracy, learning curves and spectra side by side."""
    matplotlib = require("matplotlib", "plots")
    figure_class = require("matplotlib.figure", "plots").Figure
    light = {TEXT: "#1d2126", GRID: "#d9dde1"}
    with matplotlib.rc_context({key: light.get(value, value) for key, value in SETTINGS.items()}):
        figure = figure_class(figsize=(15, 4.2), layout="constrained")
        for axes, paint in zip(figure.subplots(1, 3), (accuracies, curves, spectra), strict=True):
            paint(axes, results, OPAQUE)
        figure.savefig(path, dpi=110)


def plots_for_page(results: Sequence[PoolResult]) -> list[str]:
    """Draw the same plots as SVG."""
    return [
        draw("accuracies", partial(accuracies, results=results, colors=COLORS), about="Accuracy of every pool"),
        draw("curves", partial(curves, results=results, colors=COLORS), about="Test accuracy over the epochs"),
        draw("spectra", partial(spectra, results=results, colors=COLORS), about="Eigenvalues by rank"),
    ]


def accuracies(axes: Any, results: Sequence[PoolResult], colors: Sequence[str]) -> None:
    """Plot the mean with its interval, and a ring for every seed."""
    for place, (result, color) in enumerate(zip(results, colors, strict=True)):
        low, high = result.interval
        axes.plot([100 * low, 100 * high], [place, place], color=color, linewidth=2.5)
        axes.plot(100 * result.top1, place, "o", color=color, markersize=8)
        axes.plot(
            [100 * top1 for top1 in result.seeds], [place + 0.2] * len(result.seeds), "o", color=color, fillstyle="none"
        )
        text = f"{result.name}: {result.top1:.1%}"
        axes.annotate(text, (100 * result.top1, place), (0, 9), textcoords="offset points", ha="center", color=color)
    axes.set_yticks([])
    axes.margins(x=0.3)  # room for the text above the bars
    axes.set_ylim(len(results) - 0.4, -0.6)
    axes.set_xlabel("% of test tiles; bar: 95 % interval, rings: seeds")
    axes.set_title("Accuracy after the last epoch")


def curves(axes: Any, results: Sequence[PoolResult], colors: Sequence[str]) -> None:
    """Plot the test accuracy of every epoch, averaged over the seeds."""
    for result, color in zip(results, colors, strict=True):
        axes.plot(
            result.curve.x,
            [100 * y for y in result.curve.y],
            color=color,
            label=result.name,
            marker="o",
            markersize=3.5,
        )
    axes.locator_params(axis="x", integer=True, nbins=8)
    axes.set_xlabel("epoch")
    axes.set_ylabel("%")
    axes.set_title("Test accuracy, mean of the seeds")
    axes.legend(loc="lower right")


def spectra(axes: Any, results: Sequence[PoolResult], colors: Sequence[str]) -> None:
    """Plot the eigenvalues by rank: of the covariance in a pool, and of its square root."""
    for result, color in zip(results, colors, strict=True):
        if result.pool == "isqrt" and result.spectra.after is not None:
            _decay(axes, result.spectra.before, color=color, linestyle="--", label=f"{result.name}: covariance")
            _decay(axes, result.spectra.after, color=color, label=f"{result.name}: its square root, N = 5")
        elif result.pool == "cov":
            _decay(axes, result.spectra.before, color=color, label=result.name)
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
