"""Training a network by a recipe, with exact resume."""

from covpool.engine.training._build import build_network as build_network
from covpool.engine.training._finished import find_checkpoint as find_checkpoint
from covpool.engine.training._finished import read_run_recipe as read_run_recipe
from covpool.engine.training._interrupt import Stopped as Stopped
from covpool.engine.training._log import LOG_FILE as LOG_FILE
from covpool.engine.training._log import Event as Event
from covpool.engine.training._loop import Result as Result
from covpool.engine.training._loop import train as train
from covpool.engine.training._optimizer import make_optimizer as make_optimizer
from covpool.engine.training._optimizer import set_lr as set_lr
from covpool.engine.training._run_folder import BEST_CHECKPOINT as BEST_CHECKPOINT
from covpool.engine.training._run_folder import LAST_CHECKPOINT as LAST_CHECKPOINT
from covpool.engine.training._run_folder import check_writable as check_writable
from covpool.engine.training._run_folder import recipe_file as recipe_file
from covpool.engine.training._run_lock import RunLock as RunLock
from covpool.engine.training._same_recipe import CHANGEABLE as CHANGEABLE
from covpool.engine.training._same_recipe import changed_settings as changed_settings
from covpool.engine.training._schedule import lr_factor as lr_factor
