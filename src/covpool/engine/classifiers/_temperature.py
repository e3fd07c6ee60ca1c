"""Temperature scaling: one number that makes the probabilities of a classifier agree with its accuracy.

    minimize over T > 0:   mean_i w_i loss(scores_i / T, t_i),   t_i = (n onehot(y_i) + 1 / k) / (n + 1)

The target t_i is smoothed as if there were one more image, of unknown class, besides the n images. Without smoothing, T
would go to zero if all n images are classified correctly. T changes neither the order of an image's classes nor the
accuracy.

Reference: Guo et al., On Calibration of Modern Neural Networks, ICML 2017; the targets as in Platt, 1999.
"""

import math

import torch
from torch import Tensor

RANGE = 1e4  # the temperature is between 1 / RANGE and RANGE
HALVINGS = 50  # of the interval of log T, which is then shorter than 1e-13


def fit_temperature(
    scores: Tensor,  # (n, k)
    targets: Tensor,  # (n,)
    class_weights: Tensor | None = None,  # (k,)
) -> float:
    """Return the temperature with the smallest mean loss on images that the classifier was not fitted to.

    Args:
        scores: Scores of these images.
        targets: Their targets.
        class_weights: A weight per class.

    >>> scores = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> sure = fit_temperature(scores, torch.tensor([0, 0, 1, 1]))  # all correct; the smoothed target is 0.9
    >>> round(float(torch.tensor([1 / sure]).sigmoid()), 3)
    0.9
    """
    scores = scores.double()
    n, k = scores.shape
    wanted = torch.full_like(scores, 1 / (k * (n + 1)))
    wanted.scatter_add_(1, targets[:, None], torch.full_like(scores[:, :1], n / (n + 1)))
    weighted = scores if class_weights is None else scores * class_weights.to(scores)[targets, None]
    low, high = -math.log(RANGE), math.log(RANGE)  # of log(1 / T); the loss is convex in 1 / T
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        slope = (((scores * math.exp(middle)).softmax(1) - wanted) * weighted).sum()
        low, high = (low, middle) if slope > 0 else (middle, high)
    return math.exp(-(low + high) / 2)
