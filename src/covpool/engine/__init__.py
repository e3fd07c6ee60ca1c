"""Running networks over images: inference, evaluation and training."""

from covpool.engine._devices import leave_processes
from covpool.engine._infer import scores

__all__ = [
    "leave_processes",
    "scores",
]
