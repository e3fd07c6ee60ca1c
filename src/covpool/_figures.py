"""Figures that are written to files, and their colors."""

from typing import Any

from covpool._errors import require

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # also for color-blind eyes


def new_figure(width: float, height: float) -> Any:
    """Make a figure of matplotlib, in inches, that belongs to no window and need not be closed."""
    return require("matplotlib.figure", "plots").Figure(figsize=(width, height), layout="constrained")


def color(number: int) -> str:
    """Return the color of a line by its number. After the last color, the first one follows."""
    return COLORS[number % len(COLORS)]
