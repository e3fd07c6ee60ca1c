"""The learning curves of a run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from covpool._errors import require
from covpool.report._drawing import COLORS, draw
from covpool.report._history import History, Series

FAINT = {"alpha": 0.35, "linewidth": 1.0}
FEW = 40  # a curve with at most this many points has markers
SHOWN = 1e4  # largest ratio on a logarithmic scale: a cosine schedule ends close to zero


@dataclass(frozen=True)
class Panel:
    """One plot: faint lines for steps, strong lines for means of epochs or the main quantity."""

    title: str
    scale: Literal["free", "percent", "log", "from zero"]
    faint: list[Series]
    strong: list[Series]

    @property
    def series(self) -> list[Series]:
        return [series for series in (*self.faint, *self.strong) if series.x]


def learning_curves(history: History, stage_starts: Sequence[int] = ()) -> list[str]:
    """Plot the loss, the accuracy, the learning rate, the gradient norm and the speed, if they are in the log.

    Args:
        history: The log of the run.
        stage_starts: Epochs after which a stage begins, marked by a line.
    """
    x_label, marks = ("epoch", stage_starts) if history.has_epochs else ("step", ())
    drawn = []
    for panel in _panels(history):
        if panel.series:
            paint = partial(_paint, panel=panel, x_label=x_label, marks=marks)
            drawn.append(draw(panel.title, paint, about=f"{panel.title} during training"))
    return drawn


def _panels(history: History) -> Iterator[Panel]:
    of_steps, of_epochs = history.of_steps, history.of_epochs
    kinds = {"train_loss": "training", "test_loss": "test", "validation_loss": "validation"}
    yield Panel("Loss", "free", [of_steps("loss", "")], _present(of_epochs(key, name) for key, name in kinds.items()))
    kinds = {"train_top1": "training", "top1": "test", "validation_top1": "validation"}
    found = _present(_percent(of_epochs(key, name)) for key, name in kinds.items())
    yield Panel("Accuracy (top-1), %", "percent", [_percent(of_steps("accuracy", ""))], found)
    yield Panel("Learning rate", "log", [], [of_steps("lr", "")])
    norm = "gradient_norm_pool"
    yield Panel("Gradient norm at the input of the pool", "log", [of_steps(norm, "")], [of_epochs(norm, "")])
    both = [of_steps("images_per_s", "overall"), of_steps("compute_images_per_s", "without waiting for images")]
    yield Panel("Training images per second", "from zero", [], both)


def _paint(axes: Any, panel: Panel, x_label: str, marks: Sequence[int]) -> None:
    for color, series in zip(COLORS, panel.faint, strict=False):
        axes.plot(series.x, series.y, color=color, **FAINT)
    for color, series in zip(COLORS, panel.strong, strict=False):
        marked = len(series.x) == 1 or (panel.scale in ("free", "percent") and len(series.x) <= FEW)
        axes.plot(series.x, series.y, color=color, label=series.label, marker="o" if marked else "", markersize=3.5)
    for mark in marks:
        axes.axvline(mark, color=COLORS[3], linestyle=":", linewidth=1.2)
    _scale(axes, panel)
    axes.set_title(panel.title)
    axes.set_xlabel(x_label)
    axes.margins(x=0.02)
    axes.locator_params(axis="x", integer=True, nbins=8)
    if sum(bool(series.label and series.x) for series in panel.strong) > 1:
        axes.legend()


def _scale(axes: Any, panel: Panel) -> None:
    values = [value for series in panel.series for value in series.y]
    if panel.scale == "log" and min(values) > 0 and max(values) > 5 * min(values):
        axes.set_yscale("log")
        range_shown = min(max(values) / min(values), SHOWN)
        if range_shown == SHOWN:
            axes.set_ylim(bottom=max(values) / SHOWN)
        numbers = (1, 2, 5) if range_shown < 100 else (1,)
        axes.yaxis.set_major_locator(require("matplotlib.ticker", "plots").LogLocator(subs=numbers))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    elif panel.scale in ("log", "from zero"):
        axes.set_ylim(bottom=0)


def _present(curves: Iterable[Series]) -> list[Series]:
    return [series for series in curves if series.x]


def _percent(series: Series) -> Series:
    return Series(series.label, series.x, [100 * value for value in series.y])
