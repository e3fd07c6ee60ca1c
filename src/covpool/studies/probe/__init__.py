"""Probe: compare pools on the same frozen features."""

from covpool.studies.probe._convex import RANDOM_POOLS as RANDOM_POOLS
from covpool.studies.probe._plot import plot_probe as plot_probe
from covpool.studies.probe._probe import probe as probe
from covpool.studies.probe._result import ProbeResult as ProbeResult
from covpool.studies.probe._result import read_results as read_results
from covpool.studies.probe._settings import Probe as Probe
from covpool.studies.probe._settings import read_probe as read_probe
from covpool.studies.probe._summary import GROUPS as GROUPS
from covpool.studies.probe._summary import PoolSummary as PoolSummary
from covpool.studies.probe._summary import recommended as recommended
from covpool.studies.probe._summary import summarize as summarize
