"""Comparing methods: every setting is chosen inside the training samples, then the test samples are opened once."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool._progress import OnProgress, ignore
from covpool.demo._encoders import FIRST_ORDER, Encoder, candidates
from covpool.demo._tasks import Task
from covpool.engine.classifiers import CrossValidated, fit_cross_validated
from covpool.engine.evaluation import Interval, bootstrap

CLAIMED = "gaussian"  # the matrix-normalized pool that the demo expects to beat average pooling
NAMES = {
    "avg": "average pooling",
    "cov": "covariance",
    "isqrt": "iSQRT-COV",
    "gaussian": "Gaussian (mean and covariance)",
    "mean_std": "control: mean and std. deviation",
    "rbf": "control: RBF kernel on the mean",
}


@dataclass(frozen=True, eq=False)
class Choice:
    """A method with the setting that is best in cross-validation.

    Attributes:
        method: Name of the method.
        setting: The chosen setting, in words.
        encoder: Turns samples into vectors.
        fit: The classifier of these vectors, with its penalty and cross-validated accuracy.
        seconds: Time that choosing took.
    """

    method: str
    setting: str
    encoder: Encoder
    fit: CrossValidated
    seconds: float


@dataclass(frozen=True)
class MethodResult:
    """The test result of one method.

    Attributes:
        method: Name of the method.
        setting: The chosen setting, in words.
        validated: Cross-validated accuracy inside the training samples.
        accuracy: Test accuracy.
        interval: 95 % interval of the test accuracy.
        difference: Test accuracy minus that of average pooling.
        difference_interval: 95 % interval of the difference, paired by sample.
        size: Length of the vectors.
        seconds: Time that choosing the setting and fitting took.
    """

    method: str
    setting: str
    validated: float
    accuracy: float
    interval: Interval
    difference: float
    difference_interval: Interval
    size: int
    seconds: float

    @property
    def name(self) -> str:
        """Name of the method in tables."""
        return NAMES[self.method]


@dataclass(frozen=True, eq=False)
class TaskComparison:
    """The results of all methods on one task; average pooling comes first."""

    task: Task
    tested: int
    results: list[MethodResult]


def choose(task: Task, on_progress: OnProgress = ignore) -> list[Choice]:
    """Choose the setting and the penalty of every method by cross-validation inside the training samples."""
    choices = []
    for done, method in enumerate(task.methods):
        on_progress(f"fitting {NAMES[method]}", done, len(task.methods))
        choices.append(_choose(task, method))
    return choices


def _choose(task: Task, method: str) -> Choice:
    begin = time.perf_counter()
    fits = [
        (fit_cross_validated(encoder(task.train), task.train.targets, classes=task.classes), setting, encoder)
        for setting, encoder in candidates(method, task.train, task.widths)
    ]
    fit, setting, encoder = max(fits, key=lambda found: found[0].accuracy)
    return Choice(method, setting, encoder, fit, time.perf_counter() - begin)


def evaluate(task: Task, choices: Sequence[Choice]) -> TaskComparison:
    """Open the test samples and evaluate every method once, as it was chosen."""
    test = task.open_test()
    correct = {
        choice.method: (choice.fit.classifier.scores(choice.encoder(test)).argmax(1) == test.targets).double()
        for choice in choices
    }
    results = [_result(choice, correct[choice.method], correct[FIRST_ORDER], task.block) for choice in choices]
    return TaskComparison(task, len(test), results)


def _result(
    choice: Choice,
    correct: Tensor,  # (n,), 1 where correct
    baseline: Tensor,  # (n,)
    block: int,
) -> MethodResult:
    ours, theirs = (torch.stack([part.mean() for part in hits.split(block)])[None] for hits in (correct, baseline))
    return MethodResult(
        method=choice.method,
        setting=choice.setting,
        validated=choice.fit.accuracy,
        accuracy=float(correct.mean()),
        interval=bootstrap(ours),
        difference=float((correct - baseline).mean()),
        difference_interval=bootstrap(ours - theirs),
        size=choice.fit.classifier.weights.shape[1],
        seconds=choice.seconds,
    )


def verdict(result: MethodResult) -> str:
    """Say how a method compares with average pooling."""
    if result.method == FIRST_ORDER:
        return "the baseline"
    low, high = result.difference_interval
    if low <= 0 <= high:
        return "no difference beyond the noise"
    return "better than average pooling" if low > 0 else "worse than average pooling"
