"""Confidence intervals of accuracies."""

import math
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

Interval = tuple[float, float]


def wilson(hits: int, trials: int, confidence: float = 0.95) -> Interval:
    """Wilson's confidence interval of an accuracy.

    Args:
        hits: Number of images predicted correctly.
        trials: Number of images.
        confidence: Confidence level.

    >>> low, high = wilson(90, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, weight = hits / trials, z**2 / trials
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


def paired_bootstrap(
    first: Tensor,  # (seeds, images), 1 for a correct prediction
    second: Tensor,  # (seeds, images)
    *,
    confidence: float = 0.95,
    draws: int = 10_000,
) -> Interval:
    """Bootstrap interval of the difference in accuracy of two methods on the same images with the same seeds.

    Seeds and images are resampled with replacement, the same ones for both methods. If the interval contains zero, the
    data do not rank the methods.

    Args:
        first: Hits of the first method.
        second: Hits of the second method.
        confidence: Confidence level.
        draws: Number of resamples.

    >>> right = torch.ones(3, 50)
    >>> paired_bootstrap(right, right)
    (0.0, 0.0)
    """
    # Images with the same hits are interchangeable, so a resample is one draw of how many there are of each kind.
    kinds, counts = (first.double() - second.double()).unique(dim=1, return_counts=True)  # (seeds, k), (k,)
    seeds, images = len(kinds), int(counts.sum())
    generator = np.random.default_rng(0)
    rows = torch.from_numpy(generator.integers(seeds, size=(draws, seeds)))
    drawn = torch.from_numpy(generator.multinomial(images, counts.numpy() / images, size=draws))  # (draws, k)
    means = (kinds[rows].mean(1) * drawn).sum(1) / images
    tails = torch.tensor([0.5 - confidence / 2, 0.5 + confidence / 2], dtype=torch.float64)
    low, high = means.quantile(tails).tolist()
    return low, high
