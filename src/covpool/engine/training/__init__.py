"""Training a network by a recipe, with exact resume."""

from covpool.engine.training._interrupt import Stopped
from covpool.engine.training._log import LOG_FILE, Event, read_log
from covpool.engine.training._loop import Result, ignore, train
from covpool.engine.training._optimizer import make_optimizer, set_lr
from covpool.engine.training._run_folder import BEST_CHECKPOINT, LAST_CHECKPOINT
from covpool.engine.training._schedule import lr_factor
from covpool.engine.training._state import STATE_FILE

__all__ = [
    "BEST_CHECKPOINT",
    "LAST_CHECKPOINT",
    "LOG_FILE",
    "STATE_FILE",
    "Event",
    "Result",
    "Stopped",
    "ignore",
    "lr_factor",
    "make_optimizer",
    "read_log",
    "set_lr",
    "train",
]
