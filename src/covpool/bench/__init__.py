"""Speed and error of every operation and pool, side by side, on this machine."""

from covpool.bench._loading import measure_loading
from covpool.bench._measure import busy_time, peak_memory, time_in_turns
from covpool.bench._plots import check_picture, plot_curves, plot_throughput, read_records
from covpool.bench._record import Record, environment, write_records
from covpool.bench._steps import HEADS, measure_model
from covpool.bench._suites import SUITES, run_suite

__all__ = [
    "HEADS",
    "SUITES",
    "Record",
    "busy_time",
    "check_picture",
    "environment",
    "measure_loading",
    "measure_model",
    "peak_memory",
    "plot_curves",
    "plot_throughput",
    "read_records",
    "run_suite",
    "time_in_turns",
    "write_records",
]
