"""How good scores are: top-1, top-3 and top-5 accuracy, by torchmetrics."""

from torch import Tensor
from torch.nn.functional import cross_entropy
from torchmetrics.classification import MulticlassAccuracy

TOP = (1, 3, 5)
ROWS = 4096  # scored at once: torchmetrics makes whole matrices of ranks


def accuracies(scores: Tensor, targets: Tensor) -> dict[str, float]:
    """The fraction of images whose class is among the k highest scores, and the mean cross-entropy.

    Args:
        scores: (n, classes), logits.
        targets: (n,), the class of each; -1 = unknown, and not counted. Nothing counted gives an empty result.

    >>> import torch
    >>> accuracies(torch.eye(4), torch.tensor([0, 1, 2, 0]))["top1"]
    0.75
    """
    known = targets >= 0
    scores, targets = scores[known].float(), targets[known]
    if not len(targets):
        return {}
    classes = scores.shape[1]
    found = {"loss": float(cross_entropy(scores.double(), targets))}
    for k in TOP:
        if k >= classes:  # torchmetrics knows no such k
            found[f"top{k}"] = 1.0
            continue
        # Every process has all the scores: nothing is to be summed over processes.
        metric = MulticlassAccuracy(classes, k, "micro", validate_args=False, sync_on_compute=False)
        metric.to(scores.device)
        for part, wanted in zip(scores.split(ROWS), targets.split(ROWS), strict=True):
            metric.update(part, wanted)
        hits = round(float(metric.compute()) * len(targets))  # it divides in float32
        found[f"top{k}"] = hits / len(targets)
    return found
