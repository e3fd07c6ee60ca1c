"""A mixture of factor analysers: posterior moments of its factors, by low-rank products."""

from typing import NamedTuple

import torch
from torch import Tensor

from covpool.ops._spd_inverse import spd_inverse
from covpool.ops.precision import full_precision
from covpool.ops.product import product


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
        weights: of the positions, multiplied into the posteriors; one by default.

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
