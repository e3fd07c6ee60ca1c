"""Running networks over images: inference, evaluation and training."""

from covpool.engine._devices import autocast as autocast
from covpool.engine._devices import leave_processes as leave_processes
from covpool.engine._infer import compute_scores as compute_scores
from covpool.engine._infer import infer as infer
from covpool.engine._infer import select_rows as select_rows
from covpool.engine._infer import with_progress as with_progress
