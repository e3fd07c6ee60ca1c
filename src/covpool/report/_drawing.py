"""Small plots as SVG inside the page, with the fonts and the light and dark colors of the page."""

import io
import re
from collections.abc import Callable
from typing import Any

from covpool._errors import require

# Colors that matplotlib writes, and the colors of the page that replace them.
TEXT, GRID = "#010203", "#040506"
COLORS = ("#0a0001", "#0a0002", "#0a0003", "#0a0004")
IN_PAGE = {TEXT: "currentColor", GRID: "var(--line)"} | {c: f"var(--c{i})" for i, c in enumerate(COLORS, 1)}
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text
    "font.size": 10.5,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GRID,
    "axes.labelcolor": TEXT,
    "axes.titlecolor": TEXT,
    "text.color": TEXT,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
}


def draw(name: str, paint: Callable[[Any], None], *, about: str) -> str:
    """Draw a plot as SVG text.

    Args:
        name: Name of the plot, unique in the page.
        paint: Draws on the axes.
        about: Description for screen readers.
    """
    matplotlib = require("matplotlib", "plots")
    figure_class = require("matplotlib.figure", "plots").Figure
    with matplotlib.rc_context({**SETTINGS, "svg.hashsalt": name}):
        figure = figure_class(figsize=(4.5, 2.9))
        figure.subplots_adjust(left=0.145, right=0.98, top=0.9, bottom=0.17)  # the same for all plots
        paint(figure.add_subplot())
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return _for_page(written.getvalue(), about)


def _for_page(svg: str, about: str) -> str:
    """Keep only the <svg> element, and remove ids, links to other files and fixed colors."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s(xmlns(:xlink)?|version)="[^"]*"', "", svg)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg).replace("xlink:href", "href")
    svg = re.sub(r'\s(width|height)="[\d.]+pt"', "", svg, count=2)
    for color, inside in IN_PAGE.items():
        svg = svg.replace(color, inside)
    return svg.replace("<svg", f'<svg role="img" aria-label="{about}"', 1).strip()
