"""Speed and error of every operation and pool, side by side, on this machine."""

from covpool.bench.record import Record, write_records
from covpool.bench.steps import measure_model
from covpool.bench.suites import SUITES, run_suite

__all__ = ["SUITES", "Record", "measure_model", "run_suite", "write_records"]
