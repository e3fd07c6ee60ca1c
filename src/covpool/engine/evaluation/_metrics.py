"""Accuracy and loss of scores."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

Part = Literal["test", "validation"]  # images that are evaluated

TOP = (1, 3, 5)
BINS = 15  # number of confidence intervals of the calibration error, as in Guo et al., ICML 2017


def accuracies(scores: Tensor, targets: Tensor) -> dict[str, float]:
    """Compute the mean cross-entropy and the top-1, top-3 and top-5 accuracy.

    Args:
        scores: Logits (n, classes).
        targets: Targets (n,); images with target -1 are left out. If no image is left, the result is empty.

    >>> accuracies(torch.eye(4), torch.tensor([0, 1, 2, 0]))["top1"]
    0.75
    """
    known = targets >= 0
    scores, targets = scores[known].float(), targets[known]
    if not len(targets):
        return {}
    found = {"loss": float(cross_entropy(scores.double(), targets))}
    ranked = scores.argsort(
        dim=1, descending=True, stable=True
    )  # equal scores in the order of the classes, as by argmax
    for k in TOP:
        found[f"top{k}"] = int((ranked[:, :k] == targets[:, None]).sum()) / len(targets)
    return found


def named_by_part(metrics: dict[str, float], part: Part) -> dict[str, float]:
    """Name the accuracies of a validation set as such; those of the test set keep their names.

    >>> named_by_part({"top1": 0.75}, "validation")
    {'validation_top1': 0.75}
    """
    return metrics if part == "test" else {f"{part}_{name}": value for name, value in metrics.items()}


def calibration_error(scores: Tensor, targets: Tensor) -> float:
    """Compute the expected calibration error: the gap between confidence and accuracy, averaged over images.

    Images are grouped by confidence, the probability of the predicted class, into 15 intervals of equal length. The
    confidence 1 forms a group of its own. The error is the sum over groups of |sum of (confidence - hit)| / n.

    Args:
        scores: Logits (n, classes).
        targets: Targets (n,), all known.

    >>> round(calibration_error(torch.tensor([[50.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1])), 6)
    0.25
    """
    confidence, answers = scores.double().softmax(1).float().max(1)
    group = torch.bucketize(confidence, torch.linspace(0, 1, BINS + 1, device=scores.device), right=True)
    gaps = torch.zeros(BINS + 2, dtype=torch.float64, device=scores.device)
    gaps.index_add_(0, group, confidence.double() - (answers == targets).double())
    return float(gaps.abs().sum() / len(targets))
