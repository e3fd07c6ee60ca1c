"""The pools of a fit, and choosing pool, image size and tap by cross-validation inside the training images."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from covpool._errors import CovpoolError
from covpool.pools import pool_info
from covpool.studies._pool_labels import split_label


def check_pool(label: str) -> None:
    """Refuse a pool that is unknown, or that is its own classifier."""
    name, _ = split_label(label, "pool")
    if "num_classes" in pool_info(name).options:
        raise CovpoolError(f"`pool` must give vectors; {name!r} gives scores: choose another, or train it by a recipe")


@dataclass(frozen=True)
class Candidate:
    """What is compared: a pool at an image size and a tap.

    Attributes:
        pool: The pool, NAME or NAME:option=value:...
        size: Image size in pixels.
        level: Module whose output is pooled; "" is the last features.
    """

    pool: str
    size: int
    level: str = ""


@dataclass(frozen=True)
class Trial:
    """The cross-validation of one candidate.

    Attributes:
        candidate: The candidate.
        length: Length of the vector that the pool gives.
        accuracy: Accuracy on held-out training images.
        standard_error: Standard error of this accuracy.
        penalty: Penalty of the classifier with this accuracy.
        accuracies: Accuracy of every penalty.
        seconds: Time of pooling and fitting.
        converged: Whether the classifier reached its tolerance.
    """

    candidate: Candidate
    length: int
    accuracy: float
    standard_error: float
    penalty: float
    accuracies: dict[float, float]
    seconds: float
    converged: bool = True

    def as_json(self) -> dict[str, Any]:
        """The trial as values that JSON can hold."""
        fields = asdict(self)
        penalties = {f"{penalty:g}": accuracy for penalty, accuracy in self.accuracies.items()}
        return {**fields.pop("candidate"), **fields, "accuracies": penalties}


def choose(trials: Sequence[Trial]) -> Trial:
    """Choose the simplest candidate whose accuracy is within one standard error of the best one.

    Pools of first order are simpler than others, then smaller images than larger ones, then shorter vectors than longer
    ones.

    >>> def trial(pool, size, length, accuracy):
    ...     return Trial(Candidate(pool, size), length, accuracy, 0.01, 1e-5, {}, 0.0)
    >>> choose([trial("avg", 224, 1280, 0.80), trial("isqrt", 320, 32896, 0.85), trial("isqrt", 224, 32896, 0.845)])
    ... # doctest: +ELLIPSIS
    Trial(candidate=Candidate(pool='isqrt', size=224, level=''), ...
    """
    best = max(trials, key=lambda trial: trial.accuracy)
    close = [trial for trial in trials if trial.accuracy >= best.accuracy - best.standard_error]
    return min(close, key=_complexity)


def _complexity(trial: Trial) -> tuple[bool, int, int]:
    name, _ = split_label(trial.candidate.pool, "pool")
    return pool_info(name).order != "1", trial.candidate.size, trial.length
