"""Matrix power normalized covariance pooling by eigen-decomposition (MPN-COV)."""

from typing import Any

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool.ops import covariance, powm_covariance, powm_eigh, shrunk_covariance, vech, vn_mle_eigh
from covpool.ops.positions import keep_positions, zero_if_empty
from covpool.ops.powm_eigh import Normalization, NullGradient, Threshold, check_options
from covpool.ops.shrinkage import Shrinkage
from covpool.ops.vn_mle_eigh import check_gamma
from covpool.pools._triangle import TrianglePool
from covpool.pools.base import register


@register("mpn", title="MPN-COV", order="2")
class MatrixPowerPool(TrianglePool):
    """The upper triangle of a power of the covariance, exact for any alpha.

    Formula: z = vech(Sigma^alpha)
    Reference: Li et al., Is Second-order Information Helpful for Large-scale Visual Recognition?, ICCV 2017
    Size: c (c + 1) / 2
    Cost: n c^2 + about 10 c^3 (eigen-decomposition)

    Args:
        alpha: Power, in (0, 2]; the paper's best is 1/2.
        learn_alpha: Train the power.
        normalization: Divide by the largest eigenvalue ("spectral", M-l2) or the Frobenius norm ("frobenius", M-Fro).
        eps, null_gradient: Treatment of zero eigenvalues, see `covpool.ops.powm_eigh`.
        gamma: Replaces the power by the maximum likelihood estimate with a von Neumann divergence of this weight
            (vN-MLE), which is the square root at gamma = 1; see `covpool.ops.vn_mle_eigh`.
        shrinkage: Estimator that first shrinks the covariance towards a multiple of the identity, see
            `covpool.ops.shrunk_covariance`.
    """

    normalizes = "covariance"

    normalization: Normalization | None = None
    eps: Threshold | float = "rank"
    null_gradient: NullGradient = "exact"
    gamma: float | None = None
    shrinkage: Shrinkage | None = None

    def __init__(self, in_features: int, *, alpha: float = 0.5, learn_alpha: bool = False, **options: Any) -> None:
        super().__init__(in_features, **options)
        check_options(self.eps, self.normalization, self.null_gradient)
        if not 0 < alpha <= 2:
            raise CovpoolError(f"`alpha` must be in (0, 2]; got {alpha}")
        if self.gamma is not None:
            check_gamma(self.gamma)
            if (alpha, learn_alpha, self.normalization, self.null_gradient) != (0.5, False, None, "exact"):
                raise CovpoolError(
                    "`gamma` replaces the power: leave `alpha`, `learn_alpha`, `normalization` and "
                    "`null_gradient` at their defaults"
                )
        self.alpha = nn.Parameter(torch.tensor(float(alpha))) if learn_alpha else float(alpha)
        shared = ("normalization", "eps", "null_gradient")
        self.power_options: dict[str, Any] = {name: getattr(self, name) for name in shared}

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c**2 + 10 * c**3  # of the eigen-decomposition

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        if self.gamma is None and self.shrinkage is None:
            return vech(powm_covariance(x, self.alpha, mask=mask, weights=weights, **self.power_options))
        if self.shrinkage is None:
            sigma = covariance(x, mask=mask, weights=weights)
        else:
            sigma = shrunk_covariance(x, shrinkage=self.shrinkage, mask=mask, weights=weights)
        if self.gamma is None:
            return vech(powm_eigh(sigma, self.alpha, **self.power_options))
        z = vech(vn_mle_eigh(sigma, self.gamma, eps=self.eps))
        return zero_if_empty(z, keep_positions(x, mask, weights)[1])  # for gamma > 1 a zero covariance gives no zero
