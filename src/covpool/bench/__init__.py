"""Benchmarks: speed and error of every operation and pool, side by side, on this machine."""

from covpool.bench._loading import measure_loading
from covpool.bench._measure import busy_time, peak_memory, time_interleaved
from covpool.bench._plots import check_plot_path, plot_curves, plot_throughput, read_records
from covpool.bench._record import Record, environment, write_records
from covpool.bench._steps import HEADS, measure_model
from covpool.bench._suites import SUITES, run_suite

__all__ = [
    "HEADS",
    "SUITES",
    "Record",
    "busy_time",
    "check_plot_path",
    "environment",
    "measure_loading",
    "measure_model",
    "peak_memory",
    "plot_curves",
    "plot_throughput",
    "read_records",
    "run_suite",
    "time_interleaved",
    "write_records",
]
