"""Summary of a sweep: mean and standard deviation over seeds and splits, as a table and a plot."""

import csv
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError
from covpool._figures import color, new_figure
from covpool.studies.sweep._axes import REPEATS, Point
from covpool.studies.sweep._sweep import Outcome

FIGURES = ("top1", "top3", "top5")


@dataclass(frozen=True)
class SweepRow:
    """One point of the grid over its repeats.

    Attributes:
        point: Settings, without those that results are averaged over.
        outcomes: Outcomes of its trainings.
    """

    point: Point
    outcomes: tuple[Outcome, ...]

    @property
    def label(self) -> str:
        """The settings in one line."""
        return ", ".join(f"{key}={value}" for key, value in self.point.items()) or "all"

    @property
    def sound(self) -> list[Outcome]:
        """The outcomes that did not fail."""
        return [outcome for outcome in self.outcomes if not outcome.failed]

    def mean(self, figure: str) -> float | None:
        """Return the mean over the repeats; None without any."""
        values = self.values(figure)
        return statistics.mean(values) if values else None

    def deviation(self, figure: str) -> float | None:
        """Return the standard deviation over the repeats (n - 1 in the denominator); None for fewer than two."""
        values = self.values(figure)
        return statistics.stdev(values) if len(values) > 1 else None

    def values(self, figure: str) -> list[float]:
        """Return the values of the trainings that have a result."""
        return [outcome.metrics[figure] for outcome in self.sound if figure in outcome.metrics]


def tabulate(outcomes: Sequence[Outcome]) -> list[SweepRow]:
    """Return one row per point, in the order of the grid. Seeds and splits share a row."""
    rows: dict[tuple[tuple[str, str], ...], list[Outcome]] = {}
    for outcome in outcomes:
        key = tuple((name, value) for name, value in outcome.point.items() if name not in REPEATS)
        rows.setdefault(key, []).append(outcome)
    return [SweepRow(dict(key), tuple(own)) for key, own in rows.items()]


def write_csv(rows: Sequence[SweepRow], path: Path) -> None:
    """Write one line per row, with means and standard deviations."""
    keys = list(rows[0].point)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        figures = [f"{figure}_{kind}" for figure in FIGURES for kind in ("mean", "deviation")]
        writer.writerow([*keys, "finished", "failed", *figures])
        for row in rows:
            values = [value for figure in FIGURES for value in (row.mean(figure), row.deviation(figure))]
            count = len(row.sound)
            written = ["" if value is None else f"{value:.6g}" for value in values]
            writer.writerow([*row.point.values(), count, len(row.outcomes) - count, *written])


def write_lines(outcomes: Sequence[Outcome], path: Path, about: dict[str, Any]) -> None:
    """Write one JSON line per training. Each includes the entries of `about`."""
    lines = [
        {"suite": "sweep", **about, "settings": o.point, "run": o.run.name, "status": o.status}
        | {"reason": o.failed or None, "seconds": o.seconds, **o.metrics}
        for o in outcomes
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def plot_sweep(rows: Sequence[SweepRow], path: Path, title: str = "") -> None:
    """Plot top-1 accuracy against the first setting: a dot per training, and their mean.

    Each combination of the other settings has its color. Means are joined by a line if the first setting is a number.
    """
    shown = [row for row in rows if row.sound]
    if not shown:
        raise CovpoolError("no training of the sweep has a result: there is nothing to plot")
    axis_key = next(iter(shown[0].point), None)
    ticks = list(dict.fromkeys(row.point.get(axis_key or "", "all") for row in rows))
    places, is_number = _places(ticks)
    lines: dict[str, list[SweepRow]] = {}
    for row in shown:
        others = ", ".join(f"{key}={value}" for key, value in row.point.items() if key != axis_key)
        lines.setdefault(others, []).append(row)
    figure = new_figure(7, 4.5)
    panel = figure.subplots()
    near = min((b - a for a, b in pairwise(sorted(places.values()))), default=1.0)
    for i, (label, own) in enumerate(lines.items()):
        shift = 0 if is_number else near * 0.5 * ((i + 0.5) / len(lines) - 0.5)
        x = [places[row.point.get(axis_key or "", "all")] + shift for row in own]
        y = [100 * (row.mean("top1") or 0) for row in own]
        style = {"color": color(i), "markersize": 9, "label": label or None}
        panel.plot(x, y, marker="_", linestyle="-" if is_number else "", **style)
        for place, row in zip(x, own, strict=True):
            values = [100 * value for value in row.values("top1")]
            panel.scatter([place] * len(values), values, color=style["color"], alpha=0.5, s=25)
    panel.set_xticks(list(places.values()), ticks)
    panel.set_xlabel(axis_key or "")
    panel.set_ylabel("top-1 accuracy, %: each training, and the mean")
    panel.grid(alpha=0.3)
    if any(lines):
        panel.legend()
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


def _places(ticks: Sequence[str]) -> tuple[dict[str, float], bool]:
    """Return the position of each value, and whether all are numbers: their own value, or else side by side."""
    try:
        return {tick: float(tick) for tick in ticks}, True
    except ValueError:
        return {tick: float(i) for i, tick in enumerate(ticks)}, False
