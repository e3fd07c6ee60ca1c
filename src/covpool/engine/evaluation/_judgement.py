"""What scores say of a classifier: accuracy with its interval, by class, confusion, calibration."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchmetrics.classification import MulticlassCalibrationError

from covpool._errors import CovpoolError
from covpool.engine.evaluation._intervals import Interval, wilson
from covpool.engine.evaluation._metrics import TOP, accuracies

BINS = 15  # of the calibration error, as is usual


@dataclass(frozen=True)
class ClassAccuracy:
    """One class with its images; two classes may have the same name, as ImageNet's cranes."""

    label: int
    name: str
    images: int
    top1: float


@dataclass(frozen=True)
class Judgement:
    """A classifier on a set of images.

    Attributes:
        images: counted.
        unread: left out, because they could not be read or their class is unknown.
        accuracy: top-1, 3 and 5, by "top1", "top3", "top5".
        interval: of each, 95 %.
        confusion: (classes, classes), how many of the row's class were taken for the column's.
        classes: names.
        calibration_error: expected, of the probability of the class that is named; None for scores without
            probabilities.
    """

    images: int
    unread: int
    accuracy: dict[str, float]
    interval: dict[str, Interval]
    confusion: Tensor
    classes: tuple[str, ...]
    calibration_error: float | None

    @property
    def by_class(self) -> list[ClassAccuracy]:
        """Every class with images, worst first."""
        counts, hits = self.confusion.sum(1).tolist(), self.confusion.diagonal().tolist()
        rows = [
            ClassAccuracy(label, name, counts[label], hits[label] / counts[label])
            for label, name in enumerate(self.classes)
            if counts[label]
        ]
        return sorted(rows, key=lambda row: row.top1)

    def as_json(self) -> dict[str, Any]:
        return {
            "images": self.images,
            "unread": self.unread,
            **self.accuracy,
            **{f"{name}_interval": list(value) for name, value in self.interval.items()},
            "calibration_error": self.calibration_error,
            "by_class": [vars(row) for row in self.by_class],
        }


def judge(scores: Tensor, targets: Tensor, classes: Sequence[str], *, probabilities: bool = True) -> Judgement:
    """Judge a classifier by its scores.

    Args:
        scores: (n, classes), logits or log-probabilities; the highest is the answer.
        targets: (n,); -1 = not to be counted.
        classes: names.
        probabilities: whether the softmax of the scores is meant as probabilities.

    >>> found = judge(torch.eye(3).repeat(4, 1), torch.tensor([0, 1, 2] * 3 + [1, 1, -1]), ["a", "b", "c"])
    >>> found.images, found.unread, round(found.accuracy["top1"], 3)
    (11, 1, 0.909)
    """
    if scores.shape != (len(targets), len(classes)):
        raise CovpoolError(f"`scores` must be ({len(targets)}, {len(classes)}); got {tuple(scores.shape)}")
    known = targets >= 0
    if not known.any():
        raise CovpoolError("no image has a known class: there is nothing to judge")
    scores, targets = scores[known], targets[known]
    accuracy = {name: value for name, value in accuracies(scores, targets).items() if name != "loss"}
    count = len(targets)
    pairs = targets * len(classes) + scores.argmax(1)
    confusion = torch.bincount(pairs, minlength=len(classes) ** 2).unflatten(0, (len(classes), len(classes)))
    return Judgement(
        images=count,
        unread=int((~known).sum()),
        accuracy=accuracy,
        interval={f"top{k}": wilson(round(accuracy[f"top{k}"] * count), count) for k in TOP},
        confusion=confusion,
        classes=tuple(classes),
        calibration_error=_calibration_error(scores, targets) if probabilities else None,
    )


def _calibration_error(scores: Tensor, targets: Tensor) -> float:
    metric = MulticlassCalibrationError(scores.shape[1], n_bins=BINS, norm="l1", validate_args=False)
    return float(metric(scores.double().softmax(1).float(), targets))
