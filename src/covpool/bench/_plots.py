"""Plots of benchmark records: time against channels, positions and batch; throughput of training against batch."""

from collections import Counter
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError
from covpool._figures import color, new_figure

AXES = ("images", "positions", "channels")


def check_plot_path(path: Path) -> None:
    """Refuse a path whose suffix is not an image format that matplotlib writes."""
    kinds = new_figure(1, 1).canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in kinds:
        raise CovpoolError(f"the file of a plot must end in one of {', '.join(sorted(kinds))}; got {str(path)!r}")


def plot_curves(records: list[dict[str, Any]], path: Path) -> None:
    """Plot the time against each dimension that varies in the suite "curves", the others at their usual value.

    Args:
        records: Records of `covpool bench --json`; those of other suites are ignored.
        path: Image file to write.
    """
    curves = _of_suite(records, "curves", "curves --json FILE")
    usual = tuple(Counter(record["shape"][axis] for record in curves).most_common(1)[0][0] for axis in range(3))
    figure = new_figure(14, 4)
    panels = figure.subplots(1, 3, sharey=True)
    for axis, panel in zip((2, 1, 0), panels, strict=True):
        _plot_against(panel, curves, axis, usual)
    panels[0].set_ylabel("forward + backward, ms")
    panels[0].legend()
    figure.suptitle(f"{curves[0]['device']}, torch {curves[0]['torch']}")
    figure.savefig(path, dpi=110)


def plot_throughput(records: list[dict[str, Any]], path: Path) -> None:
    """Plot images per second of eager training steps against the batch size, one line per head.

    Args:
        records: Records of `covpool bench --json`; those of other suites are ignored.
        path: Image file to write.
    """
    steps = _of_suite(records, "steps", "--model NAME --batch 16 --batch 32 ...")
    figure = new_figure(7, 4.5)
    axis = figure.subplots()
    for number, name in enumerate(dict.fromkeys(record["name"] for record in steps)):
        latest = {r["shape"][0]: r["extra"]["images_per_s"] for r in steps if r["name"] == name}
        axis.plot(*zip(*sorted(latest.items()), strict=True), marker="o", label=name, color=color(number))
    batches = sorted({record["shape"][0] for record in steps})
    axis.set_xscale("log", base=2)
    axis.set_xticks(batches, [str(batch) for batch in batches])
    axis.set_ylim(bottom=0)
    axis.set_xlabel("images per step")
    axis.set_ylabel("images per second, training")
    axis.set_title(f"{steps[0]['device']}, torch {steps[0]['torch']}")
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(path, dpi=110)


def _of_suite(records: list[dict[str, Any]], suite: str, arguments: str) -> list[dict[str, Any]]:
    """Return the records of a suite; if there are none, name the command that makes them."""
    found = [record for record in records if record["suite"] == suite]
    if not found:
        raise CovpoolError(f"the file has no records of the suite {suite!r}: run `covpool bench {arguments}`")
    return found


def _plot_against(panel: Any, curves: list[dict[str, Any]], axis: int, usual: tuple[int, ...]) -> None:
    """Time against one dimension, where the other two have their usual values."""
    others = [i for i in range(3) if i != axis]
    chosen = [record for record in curves if all(record["shape"][i] == usual[i] for i in others)]
    for number, name in enumerate(dict.fromkeys(record["name"] for record in chosen)):
        points = sorted((record["shape"][axis], _milliseconds(record)) for record in chosen if record["name"] == name)
        panel.loglog(*zip(*points, strict=True), marker="o", label=name, color=color(number))
    sizes = sorted({record["shape"][axis] for record in chosen})
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.minorticks_off()
    panel.set_xlabel(AXES[axis])
    panel.set_title(", ".join(f"{usual[i]} {AXES[i]}" for i in others))
    panel.grid(alpha=0.3)


def _milliseconds(record: dict[str, Any]) -> float:
    """Device time if it was measured, otherwise wall time."""
    return float(record["extra"].get("device_ms") or record["median_ms"])
