"""The files of the demo: a plot and a page that needs no other file."""

import base64
from collections.abc import Sequence
from pathlib import Path

from covpool._errors import CovpoolError
from covpool.demo._compare import CLAIMED, NAMES, Comparison, verdict
from covpool.demo._packages import PACKAGES
from covpool.demo._plot import plot_for_page, plot_png
from covpool.io import replacing
from covpool.report import render_page

PLOT, PAGE = "demo.png", "demo.html"
TEMPLATE = Path(__file__).parent / "demo.html.jinja"


def check_folder(out: Path) -> None:
    """Refuse a folder that contains something other than a demo."""
    if out.exists() and not out.is_dir():
        raise CovpoolError(f"--out must be a folder; {out} is a file")
    if out.is_dir() and any(path.name not in (PLOT, PAGE) for path in out.iterdir()):
        raise CovpoolError(f"--out must be a new folder or one of a demo; {out} contains other files")


def write_results(out: Path, comparisons: Sequence[Comparison]) -> None:
    """Write the plot and the page of all comparisons that are finished."""
    out.mkdir(parents=True, exist_ok=True)
    plot_png(comparisons, out / PLOT)
    values = {
        "comparisons": comparisons,
        "plots": [plot_for_page(comparison, f"accuracies{i}") for i, comparison in enumerate(comparisons)],
        "examples": [[_data_url(path) for path in comparison.task.examples] for comparison in comparisons],
        "claimed": CLAIMED,
        "claimed_name": NAMES[CLAIMED],
        "verdict": verdict,
        "packages": PACKAGES,
    }
    with replacing(out / PAGE) as partial:
        partial.write_text(render_page(TEMPLATE, values), encoding="utf-8")


def _data_url(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
