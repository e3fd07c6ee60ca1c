"""Covariance pooling with an iterative square root (iSQRT-COV)."""

from torch import Tensor

from covpool.kernels.precision import Precision
from covpool.ops import isqrt_covariance, shrunk_covariance, sqrtm_newton_schulz, vech
from covpool.ops.shrinkage import Shrinkage
from covpool.ops.sqrtm_newton_schulz import Prenorm
from covpool.pools._triangle import TrianglePool
from covpool.pools.base import PositiveInt, register


@register("isqrt", title="iSQRT-COV", order="2")
class IterativeSquareRootPool(TrianglePool):
    """The upper triangle of the square root of the covariance by Newton-Schulz iteration.

    Formula: z = vech(sqrt(t) Y_N(Sigma / t))
    Reference: Li et al., Towards Faster Training of Global Covariance Pooling Networks, CVPR 2018
    Size: c (c + 1) / 2
    Cost: n c^2 + (3 N - 3) min(n, c)^3

    Args:
        iterations: Number N of iterations.
        prenorm: Norm t that divides the covariance: its trace or its Frobenius norm.
        postcomp: Multiply by sqrt(t) at the end. The paper's batch norm variant is postcomp=False, normalize="bn".
        precision: Precision of the GPU kernels, see `covpool.ops.isqrt_covariance`.
        shrinkage: Estimator that first shrinks the covariance towards a multiple of the identity, see
            `covpool.ops.shrunk_covariance`.

    >>> import torch
    >>> IterativeSquareRootPool(64)(torch.randn(2, 64, 7, 7)).shape
    torch.Size([2, 2080])
    """

    chooses_precision = True
    normalizes = "covariance"

    iterations: PositiveInt = 5
    prenorm: Prenorm = "trace"
    postcomp: bool = True
    precision: Precision | None = None
    shrinkage: Shrinkage | None = None

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c**2 + (3 * self.iterations - 3) * min(n, c) ** 3

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        options = dict(self.options)
        if shrinkage := options.pop("shrinkage"):
            sigma = shrunk_covariance(x, shrinkage=shrinkage, mask=mask, weights=weights)
            return vech(sqrtm_newton_schulz(sigma, **options))
        return isqrt_covariance(x, mask=mask, weights=weights, vectorize=True, **options)
