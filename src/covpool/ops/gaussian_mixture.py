"""A mixture of Gaussians with diagonal covariances: posterior moments, and fitting by expectation-maximization."""

from typing import NamedTuple

import torch
from torch import Tensor

from covpool._errors import CovpoolError, check_positive_int
from covpool.ops.kmeans import kmeans, one_hot
from covpool.ops.precision import full_precision, product
from covpool.ops.squared_distances import squared_distances

# The sum of squares of the standardised means may exceed that about their middle by this factor: it costs one digit.
OFFSET = 100.0


class Moments(NamedTuple):
    """Sums over positions under the posteriors g_ik, of u_ik = w_k x_i + b_k."""

    mass: Tensor  # (b, k), sum g
    first: Tensor  # (b, k, c), sum g u
    second: Tensor  # (b, k, c), sum g u^2


@full_precision
def mixture_moments(
    x: Tensor,  # (b, n, c)
    log_weights: Tensor,  # (k,)
    w: Tensor,  # (k, c), not zero
    b: Tensor,  # (k, c)
    *,
    weights: Tensor | None = None,  # (b, n)
) -> Moments:
    """The moments of standardised features under g_ik = softmax_k(log pi_k + sum log|w_k| - |w_k x_i + b_k|^2 / 2).

    w = 1 / sigma and b = -mean / sigma, so g are the posteriors of the mixture's components. Everything is computed
    from the rows [x, x^2], as |w x + b|^2 = w^2.x^2 + 2 w b.x + b.b; nothing of size (b, n, k, c) is formed. A large
    offset that the means share is taken out of x first, so it costs no accuracy; means far apart, in units of sigma,
    do.

    Args:
        x: Features.
        log_weights: log pi, up to a constant.
        w, b: The reciprocal standard deviations and the standardised negative means.
        weights: Weights of the positions, multiplied into g; one by default.

    Shape: (b, n, c) -> (b, k), (b, k, c), (b, k, c).

    >>> import torch
    >>> one = torch.ones(1, 1)
    >>> [m.item() for m in mixture_moments(torch.tensor([[[1.], [2.]]]), torch.zeros(1), one, -one)]
    [2.0, 1.0, 1.0]
    """
    middle = _middle(w.detach(), b.detach())
    x, b = x - middle, b + w * middle
    powers = torch.cat((x, x * x), -1)  # (b, n, 2 c)
    slopes = torch.cat((-w * b, -0.5 * w * w), -1)  # (k, 2 c), of the log-densities in the powers
    constants = log_weights + w.abs().log().sum(-1) - 0.5 * (b * b).sum(-1)
    logits = product(powers.flatten(0, 1), slopes.mT).unflatten(0, x.shape[:2]) + constants
    g = logits.softmax(-1)
    if weights is not None:
        g = g * weights.unsqueeze(-1)
    mass = g.sum(1)
    sums, squares = product(g.mT, powers).chunk(2, -1)  # (b, k, c) each
    m = mass.unsqueeze(-1)
    return Moments(mass, w * sums + m * b, w * w * squares + 2 * w * b * sums + m * b * b)


def _middle(w: Tensor, b: Tensor) -> Tensor:  # (k, c), (k, c) -> (c,)
    """The point about which the standardised means are smallest, in channels where they are far from zero; else zero.

    In the others zeros stay exact: where a channel is dead for a component, after a ReLU, its first moment is zero,
    not a round-off for a square root to blow up.
    """
    middle = -(w * b).sum(0) / (w * w).sum(0)
    about_middle = ((b + w * middle) ** 2).sum(0) + len(w)
    return torch.where((b * b).sum(0) > OFFSET * about_middle, middle, 0)


# The least variance of a component, as a part of the largest variance of a channel: VLFeat's bound for Fisher vectors.
VARIANCE_BOUND = 1e-4
# The least weight of a component without points, so that its logarithm stays finite.
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
    """Fit p(x) = sum_k pi_k N(x; mu_k, diag(v_k)) to points by expectation-maximization from a k-means start.

    Computed in float64. Variances stay above 1e-4 of the largest variance of a channel, weights above 1e-6.

    Args:
        x: Points, one per row. There must be at least as many as components, and they must not all be equal.
        components: Number of components k.
        iterations: Number of steps of expectation and maximization.
        seed: Seed of `kmeans`.
        start: Mixture to start from, instead of k-means.

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
    """1e-4 of the largest variance of a channel; points that are all equal raise an error."""
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
    """One step of expectation-maximization."""
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
