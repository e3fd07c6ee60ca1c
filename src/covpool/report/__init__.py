"""The report of a run: one page that needs nothing else."""

from covpool.report._drawing import COLORS, GRID, SETTINGS, TEXT, draw
from covpool.report._findings import answer, sample_spectra
from covpool.report._history import History, Series
from covpool.report._page import render_page
from covpool.report._write import REPORT_FILE, write_report

__all__ = [
    "COLORS",
    "GRID",
    "REPORT_FILE",
    "SETTINGS",
    "TEXT",
    "History",
    "Series",
    "answer",
    "draw",
    "render_page",
    "sample_spectra",
    "write_report",
]
