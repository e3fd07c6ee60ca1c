"""Sweep: train a grid of settings and tabulate the results."""

from covpool.studies.sweep._sweep import Outcome, Planned, plan, sweep
from covpool.studies.sweep._table import Row, plot_sweep, tabulate, write_csv, write_lines

__all__ = [
    "Outcome",
    "Planned",
    "Row",
    "plan",
    "plot_sweep",
    "sweep",
    "tabulate",
    "write_csv",
    "write_lines",
]
