"""The plot of a probe: accuracy against cost."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError
from covpool._figures import new_figure
from covpool.studies.probe._summary import GROUPS, Group, PoolSummary

MARKS: dict[Group, tuple[str, str]] = {"best": ("o", "#0072B2"), "worse": ("s", "#D55E00")}  # also for color-blind eyes
LETTER, LINE = 5.2, 11.0  # width of a letter and height of a line of a label, in points
Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, right, top


def plot_probe(rows: Sequence[PoolSummary], path: Path, title: str = "") -> None:
    """Plot the gain of every pool over average pooling, sorted, and its accuracy against the time per image.

    The gain has its paired 95 % interval, and the accuracy its own. Without average pooling, the difference to the best
    pool takes the place of the gain, and without measured times the length of the vector that of the time. On a GPU the
    time is that its kernels are busy. Pools that diverged or failed are left out.

    Args:
        rows: Summaries of `summarize`.
        path: Image file to write.
        title: Title of the plot.
    """
    shown = [row for row in rows if row.group in MARKS]
    if not shown:
        raise CovpoolError("no pool has a result: there is nothing to plot")
    figure = new_figure(13, max(5.0, 1.5 + 0.22 * len(shown)))
    ranked, axes = figure.subplots(1, 2, width_ratios=(1, 1.5))
    _rank(ranked, shown)
    costs, about = _costs(shown)
    for group in dict.fromkeys(row.group for row in shown):
        chosen = [(cost, row) for cost, row in zip(costs, shown, strict=True) if row.group == group]
        tops = [100 * row.top1 for _, row in chosen]
        below = [100 * (row.top1 - row.interval[0]) for _, row in chosen]
        above = [100 * (row.interval[1] - row.top1) for _, row in chosen]
        marker, color = MARKS[group]
        axes.errorbar(
            [cost for cost, _ in chosen], tops, yerr=(below, above), fmt=marker, color=color, ecolor="#BBBBBB",
            label=GROUPS[group],
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlabel(about)
    axes.set_ylabel("top-1 accuracy, %, with 95 % interval")
    axes.margins(x=0.12)
    axes.grid(alpha=0.3)
    figure.suptitle(title)
    figure.legend(loc="outside lower center", ncols=len(MARKS))
    figure.draw_without_rendering()  # fixes the places of the points
    scale = 72 / figure.dpi
    at = [axes.transData.transform((cost, 100 * row.top1)) * scale for cost, row in zip(costs, shown, strict=True)]
    inside: Box = tuple(scale * float(side) for side in axes.bbox.extents)
    shifts = label_shifts([(float(x), float(y)) for x, y in at], [row.pool for row in shown], inside)
    for cost, row, shift in zip(costs, shown, shifts, strict=True):
        label = axes.annotate(
            row.pool, (cost, 100 * row.top1), shift, textcoords="offset points", fontsize=8, va="bottom",
            arrowprops={"arrowstyle": "-", "color": "#888888", "linewidth": 0.5, "shrinkB": 3},
        )  # fmt: skip
        label.set_in_layout(False)
    figure.savefig(path, dpi=110)


def _costs(rows: Sequence[PoolSummary]) -> tuple[list[float], str]:
    """Return the cost of one image for every pool, the same measure for all, and what it is."""
    for name, about in (("busy_ms_per_batch", "GPU milliseconds"), ("ms_per_batch", "milliseconds")):
        times = [row.cost_per_image(name) for row in rows]
        if all(times):
            return [time or 0.0 for time in times], f"{about} per image (reduction and pool)"
    return [float(row.results[0].size) for row in rows], "length of the vector"


def _rank(axes: Any, rows: Sequence[PoolSummary]) -> None:
    """Draw the paired difference of every pool to average pooling, or to the best pool, the best at the top."""
    ordered = sorted(rows, key=lambda row: row.top1)
    reference = next((row for row in rows if row.to_reference == (0.0, 0.0)), None)
    against = reference or ordered[-1]
    for place, row in enumerate(ordered):
        low, high = (100 * bound for bound in (row.to_reference if reference and row.to_reference else row.to_best))
        marker, color = MARKS[row.group]
        axes.plot([low, high], [place, place], color="#BBBBBB", linewidth=2)
        axes.plot([100 * (row.top1 - against.top1)], [place], marker=marker, color=color)
    axes.axvline(0, color="#888888", linewidth=0.8)
    axes.set_yticks(range(len(ordered)), [row.pool for row in ordered], fontsize=8)
    axes.set_xlabel(f"difference to {against.pool} in points, with paired 95 % interval")
    axes.grid(alpha=0.3, axis="x")


def label_shifts(points: Sequence[Point], labels: Sequence[str], inside: Box) -> list[Point]:
    """Return the shift of every label from its point, so that it covers no other label and no point.

    All lengths are in points (1/72 inch). A label is moved no further than needed, and stays inside the axes.

    >>> label_shifts([(50, 50), (50, 51)], ["avg", "max"], (0, 0, 100, 100))
    [(6.0, -5.5), (-21.6, -5.5)]
    """
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    shifts = []
    for (x, y), label in zip(points, labels, strict=True):
        for dx, dy in _candidates(LETTER * len(label)):
            box = (x + dx, y + dy, x + dx + LETTER * len(label), y + dy + LINE)
            fits = box[0] > inside[0] and box[1] > inside[1] and box[2] < inside[2] and box[3] < inside[3]
            if fits and not any(_overlap(box, other) for other in taken):
                break
        taken.append(box)
        shifts.append((dx, dy))
    return shifts


def _candidates(width: float) -> Iterator[Point]:
    """Yield shifts of a label of this width, the nearest first: right, left, and ever further up and down."""
    steps = sorted(product(range(-30, 31), range(4)), key=lambda step: (abs(step[0]) + step[1], step))
    for up, out in steps:
        for dx in (6.0 + 20 * out, -6.0 - 20 * out - width):
            yield dx, LINE / 2 * up - LINE / 2


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
