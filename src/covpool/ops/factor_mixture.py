"""A mixture of factor analyzers: posterior moments of its factors, and fitting by expectation-maximization."""

from typing import NamedTuple

import torch
from torch import Tensor

from covpool._errors import check_positive_int
from covpool.ops._spd_inverse import spd_inverse
from covpool.ops.gaussian_mixture import WEIGHT_BOUND, GaussianMixture, gmm_em, variance_bound
from covpool.ops.precision import full_precision, product


class FactorMoments(NamedTuple):
    """Sums over positions under the posteriors g_ik, of the extended factors z = (1, factors) of component k."""

    mass: Tensor  # (b, k), sum g
    cross: Tensor  # (b, k, r + 1, c), sum g E[z] x^T
    second: Tensor  # (b, k, r + 1, r + 1), sum g E[z z^T]


@full_precision
def factor_moments(
    x: Tensor,  # (b, n, c), in units of the noise
    log_weights: Tensor,  # (k,)
    basis: Tensor,  # (k, r + 1, c)
    *,
    weights: Tensor | None = None,  # (b, n)
) -> FactorMoments:
    """The sufficient statistics of x = mu_k + Lambda_k z + noise, noise and factors standard normal.

    Component k has covariance S_k = I + Lambda_k Lambda_k^T. With M_k = I + Lambda_k^T Lambda_k (r x r) and
    t = Lambda_k^T (x - mu_k), Woodbury's identity gives E[z | x, k] = M_k^-1 t, Cov[z | x, k] = M_k^-1,
    log det S_k = log det M_k and (x - mu_k)^T S_k^-1 (x - mu_k) = |x - mu_k|^2 - t^T M_k^-1 t: no c x c matrix, nothing
    of size (b, n, k, c), two products of n c k (r + 1).

    Args:
        x: features, divided by the standard deviations of the noise, which all components share.
        log_weights: log pi, up to a constant.
        basis: row 0 the mean mu_k, the others the columns of Lambda_k, in the same units.
        weights: Weights of the positions, multiplied into the posteriors; one by default.

    Shape: (b, n, c) -> (b, k), (b, k, r + 1, c), (b, k, r + 1, r + 1).

    Reference: Ghahramani and Hinton, "The EM Algorithm for Mixtures of Factor Analyzers", 1996.

    >>> import torch
    >>> basis = torch.tensor([[[0.], [1.]]])  # one factor of loading one: E[z | x] = x / 2, Cov[z | x] = 1 / 2
    >>> [m.flatten().tolist() for m in factor_moments(torch.tensor([[[2.]]]), torch.zeros(1), basis)]
    [[1.0], [2.0, 2.0], [1.0, 1.0, 1.0, 1.5]]
    """
    positions, (k, rows, _) = x.shape[:2], basis.shape
    means, loadings = basis[:, 0], basis[:, 1:]
    inverse, log_determinant = _small_inverse(loadings)
    dots = product(x.flatten(0, 1), basis.flatten(0, 1).mT).unflatten(-1, (k, rows))  # (b n, k, r + 1)
    t = dots[..., 1:] - (loadings * means.unsqueeze(1)).sum(-1)
    z = product(t.transpose(0, 1), inverse).transpose(0, 1)  # (b n, k, r)
    constants = log_weights - 0.5 * log_determinant - 0.5 * (means * means).sum(-1)
    g = (constants + dots[..., 0] + 0.5 * (t * z).sum(-1)).softmax(-1)  # |x|^2 is common to all components
    if weights is not None:
        g = g * weights.reshape(-1, 1)
    extended = torch.cat((torch.ones_like(z[..., :1]), z), -1)
    weighted = (g.unsqueeze(-1) * extended).unflatten(0, positions)  # (b, n, k, r + 1)
    mass = g.unflatten(0, positions).sum(1)
    cross = product(weighted.flatten(2).mT, x).unflatten(1, (k, rows))
    second = product(weighted.permute(0, 2, 3, 1), extended.unflatten(0, positions).transpose(1, 2))
    spread = torch.nn.functional.pad(inverse, (1, 0, 1, 0))  # zero in the row and column of the constant
    return FactorMoments(mass, cross, second + mass[..., None, None] * spread)


def _small_inverse(loadings: Tensor) -> tuple[Tensor, Tensor]:
    """M^-1 and log det M of M = I + Lambda^T Lambda; in float64, as loadings far above the noise make it ill-posed."""
    wide = loadings.double()  # (k, r, c)
    identity = torch.eye(wide.shape[1], dtype=wide.dtype, device=wide.device)
    inverse, log_determinant = spd_inverse(product(wide, wide.mT) + identity)
    return inverse.to(loadings.dtype), log_determinant.to(loadings.dtype)


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

    Computed in float64. The noise stays above 1e-4 of the largest variance of a channel, weights above 1e-6. It
    needs memory for two (m, k (r + 1)) matrices; about ten thousand points are enough.

    Args:
        x: Points, one per row. There must be at least as many as components, and they must not all be equal.
        components, factors: Number of components k, and of factors r of each.
        iterations: Number of steps of expectation and maximization.
        seed: Seed of the random start.

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
    """One step of expectation-maximization: a regression of the points on the extended factors of each component."""
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
    """The same components, rewritten so that their factors have mean zero and covariance one in the data.

    This is parameter-expanded EM. Plain EM converges to such factors at a rate that vanishes with the noise.
    """
    moments = second / second[:, :1, :1]
    mean = moments[:, :1, 1:]
    covariance = moments[:, 1:, 1:] - mean.mT @ mean
    return torch.cat((basis[:, :1] + mean @ basis[:, 1:], torch.linalg.cholesky(covariance).mT @ basis[:, 1:]), 1)
