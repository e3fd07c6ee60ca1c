"""Plain covariance pooling."""

from torch import Tensor

from covpool.ops import covariance, shrunk_covariance, vech
from covpool.ops.shrinkage import Shrinkage
from covpool.pools._triangle import TrianglePool
from covpool.pools.base import register


@register("cov", title="Plain covariance pooling", order="2")
class CovariancePool(TrianglePool):
    """The upper triangle of the covariance of the features over positions, without normalization.

    Formula: z = vech(Sigma)
    Reference: Wang et al., Deep CNNs Meet Global Covariance Pooling, TPAMI 2020
    Size: c (c + 1) / 2
    Cost: n c^2

    Args:
        shrinkage: Estimator that shrinks it towards a multiple of the identity, see `covpool.ops.shrunk_covariance`.
    """

    normalizes = "covariance"

    shrinkage: Shrinkage | None = None

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        if self.shrinkage is not None:
            return vech(shrunk_covariance(x, shrinkage=self.shrinkage, mask=mask, weights=weights))
        return covariance(x, mask=mask, weights=weights, vectorize=True)
