"""The report of a run: one page that needs no other file."""

from covpool.report._drawing import COLORS, GRID, SETTINGS, TEXT, draw
from covpool.report._history import History, Series
from covpool.report._page import render_page
from covpool.report._predictions import predict_test_set
from covpool.report._spectra import sample_spectra
from covpool.report._write import REPORT_FILE, write_report

__all__ = [
    "COLORS",
    "GRID",
    "REPORT_FILE",
    "SETTINGS",
    "TEXT",
    "History",
    "Series",
    "draw",
    "predict_test_set",
    "render_page",
    "sample_spectra",
    "write_report",
]
