"""The evaluation of a classifier from its scores: accuracy, intervals, confusion matrix, calibration."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.engine.evaluation._intervals import Interval, wilson
from covpool.engine.evaluation._metrics import TOP, accuracies, calibration_error


@dataclass(frozen=True)
class ClassAccuracy:
    """The accuracy of one class. Names need not be unique: ImageNet has two classes named crane."""

    label: int
    name: str
    images: int
    top1: float


@dataclass(frozen=True)
class Evaluation:
    """The result of evaluating a classifier on a set of images.

    Attributes:
        images: Number of images counted.
        unread: Number of images left out because they could not be read or their class is unknown.
        accuracy: Accuracies by the names "top1", "top3" and "top5".
        interval: 95 % confidence interval of each accuracy.
        confusion: Confusion matrix (classes, classes): images of the row's class predicted as the column's.
        classes: Class names.
        calibration_error: Expected calibration error; None for scores that are not log-probabilities.
    """

    images: int
    unread: int
    accuracy: dict[str, float]
    interval: dict[str, Interval]
    confusion: Tensor
    classes: tuple[str, ...]
    calibration_error: float | None

    @property
    def told(self) -> list[str]:
        """The accuracies that say something: top-k means nothing with k classes or fewer."""
        return [f"top{k}" for k in TOP if k == 1 or k < len(self.classes)]

    @property
    def by_class(self) -> list[ClassAccuracy]:
        """The classes that have images, worst first."""
        counts, hits = self.confusion.sum(1).tolist(), self.confusion.diagonal().tolist()
        found = [
            ClassAccuracy(label, name, counts[label], hits[label] / counts[label])
            for label, name in enumerate(self.classes)
            if counts[label]
        ]
        return sorted(found, key=lambda one: one.top1)

    def as_json(self) -> dict[str, Any]:
        """The evaluation without its confusion matrix, as values that JSON can hold."""
        return {
            "images": self.images,
            "unread": self.unread,
            **self.accuracy,
            **{f"{name}_interval": list(value) for name, value in self.interval.items()},
            "calibration_error": self.calibration_error,
            "by_class": [vars(one) for one in self.by_class],
        }


def summarize_scores(
    scores: Tensor, targets: Tensor, classes: Sequence[str], *, probabilities: bool = True
) -> Evaluation:
    """Evaluate a classifier from its scores.

    Args:
        scores: Logits or log-probabilities (n, classes); the class with the highest score is the prediction.
        targets: Targets (n,); images with target -1 are left out.
        classes: Class names.
        probabilities: Whether the softmax of the scores are probabilities, so that they have a calibration error.

    >>> found = summarize_scores(torch.eye(3).repeat(4, 1), torch.tensor([0, 1, 2] * 3 + [1, 1, -1]), ["a", "b", "c"])
    >>> found.images, found.unread, round(found.accuracy["top1"], 3)
    (11, 1, 0.909)
    """
    if scores.shape != (len(targets), len(classes)):
        raise CovpoolError(f"`scores` must be ({len(targets)}, {len(classes)}); got {tuple(scores.shape)}")
    known = targets >= 0
    if not known.any():
        raise CovpoolError("no image has a known class: there is nothing to evaluate")
    scores, targets = scores[known], targets[known]
    if scores.isnan().any():
        rows = int(scores.isnan().any(1).sum())
        raise CovpoolError(f"`scores` must be numbers; got NaN for {rows} of {len(scores)} images: check the network")
    accuracy = {name: value for name, value in accuracies(scores, targets).items() if name != "loss"}
    count = len(targets)
    pairs = targets * len(classes) + scores.argmax(1)
    confusion = torch.bincount(pairs, minlength=len(classes) ** 2).unflatten(0, (len(classes), len(classes)))
    return Evaluation(
        images=count,
        unread=int((~known).sum()),
        accuracy=accuracy,
        interval={f"top{k}": wilson(round(accuracy[f"top{k}"] * count), count) for k in TOP},
        confusion=confusion,
        classes=tuple(classes),
        calibration_error=calibration_error(scores, targets) if probabilities else None,
    )
