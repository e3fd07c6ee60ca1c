"""The numbered tables and figures of the paper: its numbers, the trainings behind ours, and both side by side."""

from covpool.studies.paper._eigenvalues import count_eigenvalues as count_eigenvalues
from covpool.studies.paper._eigenvalues import image_spectra as image_spectra
from covpool.studies.paper._eigenvalues import plot_eigenvalues as plot_eigenvalues
from covpool.studies.paper._items import Column as Column
from covpool.studies.paper._items import Item as Item
from covpool.studies.paper._items import Row as Row
from covpool.studies.paper._items import find_item as find_item
from covpool.studies.paper._items import list_items as list_items
from covpool.studies.paper._measure import measure_item as measure_item
from covpool.studies.paper._plot import plot_item as plot_item
from covpool.studies.paper._results import Cell as Cell
from covpool.studies.paper._results import count_finished as count_finished
from covpool.studies.paper._results import evaluate_item as evaluate_item
from covpool.studies.paper._results import measured_file as measured_file
from covpool.studies.paper._results import read_cells as read_cells
from covpool.studies.paper._run import run_trainings as run_trainings
from covpool.studies.paper._trainings import PaperTraining as PaperTraining
from covpool.studies.paper._trainings import plan_item as plan_item
