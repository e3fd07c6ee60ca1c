"""The report of a run: one page that needs nothing else."""

from covpool.train.report.write import FILE, write_report

__all__ = ["FILE", "write_report"]
