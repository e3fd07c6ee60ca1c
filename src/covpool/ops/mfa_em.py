"""Expectation-maximisation of a mixture of factor analysers with a common diagonal noise."""

from typing import NamedTuple

import torch
from torch import Tensor

from covpool._check import check_positive_int
from covpool.ops.factor_mixture import factor_moments
from covpool.ops.gmm_em import WEIGHT_BOUND, GaussianMixture, gmm_em, variance_bound


class FactorMixture(NamedTuple):
    """The parameters of a mixture of factor analysers, p(x) = sum_k pi_k N(x; mu_k, Lambda_k Lambda_k^T + Psi)."""

    weights: Tensor  # (k,)
    means: Tensor  # (k, c)
    loadings: Tensor  # (k, c, r)
    noise: Tensor  # (c,), the diagonal of Psi


@torch.no_grad()
def mfa_em(
    x: Tensor,  # (m, c)
    components: int,
    factors: int,
    *,
    iterations: int = 20,
    seed: int = 0,
) -> FactorMixture:
    """Fit a mixture of factor analysers to points, from a mixture of Gaussians and small random loadings.

    Computed in float64. The noise stays above 1e-4 of the largest variance of a channel, weights above 1e-6. Needs
    memory for two (m, k (r + 1)) matrices: some ten thousand points do.

    Args:
        x: points, one per row, at least as many as components, not all the same.
        components, factors: k and r.
        iterations: steps of expectation and maximisation.
        seed: of the start.

    Shape: (m, c) -> (k,), (k, c), (k, c, r), (c,), in the dtype of x.

    Reference: Ghahramani and Hinton, "The EM Algorithm for Mixtures of Factor Analyzers", 1996; Liu, Rubin and Wu,
    "Parameter Expansion to Accelerate EM: the PX-EM Algorithm", 1998.

    >>> import torch
    >>> line = torch.tensor([[1., 1.], [-1., -1.], [2., 2.], [-2., -2.]])
    >>> weights, means, loadings, noise = mfa_em(line, 1, 1)
    >>> [[round(v, 2) for v in row] for row in (loadings[0] @ loadings[0].T).tolist()]  # the covariance
    [[2.5, 2.5], [2.5, 2.5]]
    """
    check_positive_int("factors", factors)
    bound = variance_bound(x)
    points = x.double()
    offset = points.mean(0)
    points = points - offset
    mixture = _start(gmm_em(points, components, seed=seed), factors, seed)
    for _ in range(iterations):
        mixture = _step(points, mixture, bound)
    mixture = mixture._replace(means=mixture.means + offset)
    return FactorMixture(*(value.to(x.dtype) for value in mixture))


def _start(gaussians: GaussianMixture, factors: int, seed: int) -> FactorMixture:
    """Random loadings that carry half of the mixture's mean variance within components; the noise is the other half."""
    weights, means, variances = gaussians
    noise = weights @ variances / weights.sum() / 2
    random = torch.randn(*means.shape, factors, dtype=means.dtype, generator=torch.Generator().manual_seed(seed))
    return FactorMixture(weights, means, random.to(means.device) * (noise / factors).sqrt().unsqueeze(-1), noise)


def _step(points: Tensor, mixture: FactorMixture, bound: Tensor) -> FactorMixture:
    """One step of expectation-maximisation: a regression of the points on the extended factors of each component."""
    deviations = mixture.noise.sqrt()
    scaled = points / deviations
    old = torch.cat((mixture.means.unsqueeze(1), mixture.loadings.mT), 1) / deviations  # (k, r + 1, c)
    mass, cross, second = (m[0] for m in factor_moments(scaled.unsqueeze(0), mixture.weights.log(), old))
    supported = (mass > WEIGHT_BOUND * len(points))[:, None, None]
    identity = torch.eye(second.shape[-1], dtype=second.dtype, device=second.device)
    second = torch.where(supported, second, identity)
    new = torch.where(supported, torch.linalg.solve(second, cross), old)
    explained = torch.where(supported, new * (2 * cross - second @ new), 0).sum((0, 1))
    noise = (scaled.square().sum(0) - explained) / len(points) * mixture.noise
    new = torch.where(supported, _with_standard_factors(new, second), old)
    return FactorMixture(
        (mass / len(points)).clamp(min=WEIGHT_BOUND),
        new[:, 0] * deviations,
        (new[:, 1:] * deviations).mT,
        torch.maximum(noise, bound),
    )


def _with_standard_factors(
    basis: Tensor,  # (k, r + 1, c)
    second: Tensor,  # (k, r + 1, r + 1), sum g E[z z^T]
) -> Tensor:  # (k, r + 1, c)
    """The same components written with factors of mean zero and covariance one, where the data gave them others.

    Plain expectation-maximisation gets there at a rate that vanishes with the noise; this is its expanded form.
    """
    moments = second / second[:, :1, :1]
    mean = moments[:, :1, 1:]
    covariance = moments[:, 1:, 1:] - mean.mT @ mean
    return torch.cat((basis[:, :1] + mean @ basis[:, 1:], torch.linalg.cholesky(covariance).mT @ basis[:, 1:]), 1)
