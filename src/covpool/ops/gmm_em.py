"""Expectation-maximisation of a mixture of Gaussians with diagonal covariances."""

from typing import NamedTuple

import torch
from torch import Tensor

from covpool._check import check_positive_int
from covpool._errors import CovpoolError
from covpool.ops.gaussian_mixture import mixture_moments
from covpool.ops.kmeans import kmeans, one_hot
from covpool.ops.squared_distances import squared_distances

# The least variance of a component, as a part of the largest variance of a channel: VLFeat's bound for Fisher vectors.
VARIANCE_BOUND = 1e-4
# The least weight of a component that no point supports, so that its logarithm stays finite.
WEIGHT_BOUND = 1e-6


class GaussianMixture(NamedTuple):
    """The parameters of a mixture of Gaussians with diagonal covariances."""

    weights: Tensor  # (k,)
    means: Tensor  # (k, c)
    variances: Tensor  # (k, c)


def gmm_em(
    x: Tensor,  # (m, c)
    components: int,
    *,
    iterations: int = 20,
    seed: int = 0,
    start: GaussianMixture | None = None,
) -> GaussianMixture:
    """Fit p(x) = sum_k pi_k N(x; mu_k, diag(v_k)) to points by expectation-maximisation from a k-means start.

    Computed in float64. Variances stay above 1e-4 of the largest variance of a channel, weights above 1e-6.

    Args:
        x: points, one per row, at least as many as components, not all the same.
        components: k.
        iterations: steps of expectation and maximisation.
        seed: of `kmeans`.
        start: where to start in place of k-means.

    Shape: (m, c) -> (k,), (k, c), (k, c), in the dtype of x.

    >>> import torch
    >>> weights, means, variances = gmm_em(torch.tensor([[0.], [1.], [10.], [11.]]), 2)
    >>> means.sort(0).values.tolist(), variances.tolist()
    ([[0.5], [10.5]], [[0.25], [0.25]])
    """
    check_positive_int("components", components)
    bound = variance_bound(x)
    points = x.detach().double()
    mixture = _hard_start(points, components, seed, bound) if start is None else GaussianMixture(*map(_double, start))
    for _ in range(iterations):
        mixture = _step(points, mixture, bound)
    return GaussianMixture(*(value.to(x.dtype) for value in mixture))


def variance_bound(x: Tensor) -> Tensor:  # (m, c) -> ()
    """1e-4 of the largest variance of a channel; points that are all the same are refused."""
    bound = VARIANCE_BOUND * x.detach().double().var(0, correction=0).max()
    if not bound > 0:
        raise CovpoolError("the points to fit are all the same or not finite: give descriptors of several images")
    return bound


def _hard_start(points: Tensor, components: int, seed: int, bound: Tensor) -> GaussianMixture:
    """The mixture in which every point belongs wholly to its nearest k-means centre."""
    centers = kmeans(points, components, seed=seed)
    members = one_hot(squared_distances(points, centers).argmin(-1), components)
    counts = members.sum(0)
    centered = points - points.mean(0)
    means = members.mT @ centered / counts.clamp(min=1).unsqueeze(-1)
    variances = members.mT @ centered**2 / counts.clamp(min=1).unsqueeze(-1) - means**2
    return GaussianMixture((counts / len(points)).clamp(min=WEIGHT_BOUND), centers, torch.maximum(variances, bound))


@torch.no_grad()
def _step(points: Tensor, mixture: GaussianMixture, bound: Tensor) -> GaussianMixture:
    """One step of expectation-maximisation."""
    deviations = mixture.variances.sqrt()
    mass, first, second = mixture_moments(
        points.unsqueeze(0), mixture.weights.log(), 1 / deviations, -mixture.means / deviations
    )
    mass, first, second = mass[0], first[0], second[0]
    supported = mass.clamp(min=WEIGHT_BOUND * len(points)).unsqueeze(-1)
    shift = first / supported  # of the mean, in old deviations
    spread = second / supported - shift**2
    return GaussianMixture(
        (mass / len(points)).clamp(min=WEIGHT_BOUND),
        mixture.means + deviations * shift,
        torch.maximum(mixture.variances * spread, bound),
    )


def _double(value: Tensor) -> Tensor:
    return value.detach().double()
