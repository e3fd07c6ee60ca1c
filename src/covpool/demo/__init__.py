"""The demo: average and covariance pooling compared on real images, from scratch, in minutes on a CPU."""

from covpool.demo._folder import PAGE, PLOT, conclude, prepare
from covpool.demo._results import PoolResult, verdict
from covpool.demo._trainings import Training, train_all

__all__ = [
    "PAGE",
    "PLOT",
    "PoolResult",
    "Training",
    "conclude",
    "prepare",
    "train_all",
    "verdict",
]
