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


def bootstrap(
    values: Tensor,  # (seeds, images)
    *,
    confidence: float = 0.95,
    draws: int = 10_000,
) -> Interval:
    """Bootstrap interval of a mean over images and seeds, which are resampled with replacement.

    The values are the hits of a method, for its accuracy, or the differences between the hits of two methods on the
    same images. If the interval of differences contains zero, the data do not rank the methods.

    Args:
        values: A value for every image with every seed.
        confidence: Confidence level.
        draws: Number of resamples.

    >>> bootstrap(torch.ones(3, 50))
    (1.0, 1.0)
    """
    # Images with the same values are interchangeable, so a resample is one draw of how many there are of each kind.
    kinds, counts = values.double().unique(dim=1, return_counts=True)  # (seeds, k), (k,)
    seeds, images = len(kinds), int(counts.sum())
    generator = np.random.default_rng(0)
    rows = torch.from_numpy(generator.integers(seeds, size=(draws, seeds)))
    drawn = torch.from_numpy(generator.multinomial(images, counts.numpy() / images, size=draws))  # (draws, k)
    means = (kinds[rows].mean(1) * drawn).sum(1) / images
    tails = torch.tensor([0.5 - confidence / 2, 0.5 + confidence / 2], dtype=torch.float64)
    low, high = means.quantile(tails).tolist()
    return low, high
