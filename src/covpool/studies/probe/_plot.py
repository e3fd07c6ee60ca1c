"""The plot of a probe: accuracy and representation size of every pool."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from covpool._check import require
from covpool._errors import CovpoolError
from covpool.studies.probe._summary import GROUPS, PoolSummary

COLORS = {"best": "tab:green", "worse": "tab:blue", "diverged": "tab:red"}


def plot_probe(rows: Sequence[PoolSummary], path: Path, title: str = "") -> None:
    """Plot every pool with the 95 % interval of its accuracy. Pools that failed are left out.

    Args:
        rows: Summaries of `summarize`.
        path: Image file to write.
        title: Title of the plot.
    """
    shown = [row for row in rows if row.group in COLORS]
    if not shown:
        raise CovpoolError("no pool has a result: there is nothing to plot")
    plt = require("matplotlib.pyplot", "plots")
    labels = [_wrapped(row.pool) for row in reversed(shown)]
    places = _places(labels)
    height = max(3.0, 0.8 + 0.28 * (places[-1] + 1))
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, height), layout="constrained", sharey=True, width_ratios=(3, 1)
    )
    for at, row in zip(places, reversed(shown), strict=True):
        if row.group == "diverged":  # its accuracy would stretch the axis
            left.text(0.01, at, "diverged", color=COLORS[row.group], va="center", transform=left.get_yaxis_transform())
        else:
            low, high = row.interval
            error = [[100 * (row.top1 - low)], [100 * (high - row.top1)]]
            left.errorbar(100 * row.top1, at, xerr=error, fmt="o", capsize=3, color=COLORS[row.group])
        right.barh(at, row.results[0].size, color=COLORS[row.group], alpha=0.7)
    left.set_yticks(places, labels)
    left.tick_params(axis="y", labelsize=9)
    left.set_xlabel("top-1 accuracy, %, with 95 % interval")
    right.set_xlabel("size of the representation")
    right.set_xscale("log")
    for panel in (left, right):
        panel.grid(alpha=0.3, axis="x")
    used = dict.fromkeys(row.group for row in shown)
    marks = [plt.Line2D([], [], marker="o", linestyle="", color=COLORS[group], label=GROUPS[group]) for group in used]
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks))
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _places(labels: Sequence[str]) -> list[float]:
    """Return the positions of rows, with room for labels of several lines.

    >>> _places(["avg", "a:\\nb", "max"])
    [0.0, 1.3, 2.6]
    """
    room = [(1 + 0.6 * label.count("\n")) / 2 for label in labels]
    steps = [below + above for below, above in pairwise(room)]
    return list(accumulate(steps, initial=0.0))


def _wrapped(label: str, width: int = 40) -> str:
    """Break the label of a pool into lines between its options.

    >>> _wrapped("improved_bcnn:forward=newton_schulz:backward=iterative_lyapunov").split("\\n")
    ['improved_bcnn:forward=newton_schulz:', 'backward=iterative_lyapunov']
    """
    lines = [""]
    for part in label.replace(":", ":\0").split("\0"):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
