"""Sweep: train a grid of settings and tabulate the results."""

from covpool.studies.sweep._sweep import Outcome, PlannedTraining, plan, sweep
from covpool.studies.sweep._table import SweepRow, plot_sweep, tabulate, write_csv, write_lines

__all__ = [
    "Outcome",
    "PlannedTraining",
    "SweepRow",
    "plan",
    "plot_sweep",
    "sweep",
    "tabulate",
    "write_csv",
    "write_lines",
]
