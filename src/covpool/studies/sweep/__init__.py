"""Sweep: train a grid of settings and tabulate the results."""

from covpool.studies.sweep._sweep import Outcome as Outcome
from covpool.studies.sweep._sweep import PlannedTraining as PlannedTraining
from covpool.studies.sweep._sweep import plan as plan
from covpool.studies.sweep._sweep import sweep as sweep
from covpool.studies.sweep._table import SweepRow as SweepRow
from covpool.studies.sweep._table import plot_sweep as plot_sweep
from covpool.studies.sweep._table import tabulate as tabulate
from covpool.studies.sweep._table import write_csv as write_csv
from covpool.studies.sweep._table import write_lines as write_lines
