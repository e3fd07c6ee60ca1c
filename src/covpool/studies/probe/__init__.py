"""Probe: compare pools on the same frozen features."""

from covpool.studies.probe._plot import plot_probe
from covpool.studies.probe._probe import probe
from covpool.studies.probe._run import Run, read_runs
from covpool.studies.probe._settings import read_probe
from covpool.studies.probe._summary import GROUPS, Row, summarize

__all__ = [
    "GROUPS",
    "Row",
    "Run",
    "plot_probe",
    "probe",
    "read_probe",
    "read_runs",
    "summarize",
]
