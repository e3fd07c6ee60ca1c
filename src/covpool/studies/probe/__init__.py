"""Probe: compare pools on the same frozen features."""

from covpool.studies.probe._plot import plot_probe
from covpool.studies.probe._probe import probe
from covpool.studies.probe._result import ProbeResult, read_results
from covpool.studies.probe._settings import Probe, read_probe
from covpool.studies.probe._summary import GROUPS, PoolSummary, recommended, summarize

__all__ = [
    "GROUPS",
    "PoolSummary",
    "Probe",
    "ProbeResult",
    "plot_probe",
    "probe",
    "read_probe",
    "read_results",
    "recommended",
    "summarize",
]
