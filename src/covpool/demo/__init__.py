"""The demo: pools compared on the features of a frozen network and on sequences, in minutes on a CPU."""

from covpool.demo._compare import CLAIMED as CLAIMED
from covpool.demo._compare import TaskComparison as TaskComparison
from covpool.demo._compare import choose as choose
from covpool.demo._compare import evaluate as evaluate
from covpool.demo._compare import verdict as verdict
from covpool.demo._digit_images import write_digit_images as write_digit_images
from covpool.demo._tasks import Task as Task
from covpool.demo._tasks import characters as characters
from covpool.demo._tasks import check_inputs as check_inputs
from covpool.demo._tasks import digits as digits
from covpool.demo._tasks import folder as folder
from covpool.demo._write import PAGE as PAGE
from covpool.demo._write import PLOT as PLOT
from covpool.demo._write import check_folder as check_folder
from covpool.demo._write import write_results as write_results
