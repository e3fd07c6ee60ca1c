"""Running networks over images: inference, evaluation and training."""

from covpool.engine._devices import leave_processes
from covpool.engine._infer import Inferred, compute_scores, infer, infer_logits, select_rows, with_progress

__all__ = [
    "Inferred",
    "compute_scores",
    "infer",
    "infer_logits",
    "leave_processes",
    "select_rows",
    "with_progress",
]
