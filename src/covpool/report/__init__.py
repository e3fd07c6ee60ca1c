"""The report of a run: one page that needs no other file."""

from covpool.report._card import push_to_hub as push_to_hub
from covpool.report._comparison import write_comparison as write_comparison
from covpool.report._drawing import COLORS as COLORS
from covpool.report._drawing import GRID as GRID
from covpool.report._drawing import SETTINGS as SETTINGS
from covpool.report._drawing import TEXT as TEXT
from covpool.report._drawing import draw as draw
from covpool.report._write import render_page as render_page
from covpool.report._write import write_report as write_report
