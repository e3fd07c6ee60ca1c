"""Log-Euclidean second-order pooling (DeepO2P)."""

import math
from typing import Literal

from torch import Tensor

from covpool._errors import CovpoolError
from covpool.ops import covariance, logm_eigh
from covpool.ops.positions import count, keep_positions, zero_if_empty
from covpool.ops.powm_eigh import NullGradient
from covpool.pools._vectorization import Vectorization, vector_size, vectorize
from covpool.pools.base import Pool, register

Scale = Literal["none", "mean", "released"]


@register("deepo2p", title="DeepO2P", order="2")
class LogEuclideanPool(Pool):
    """The matrix logarithm of the second moment of the features.

    Formula: z = vec(log(F^T F / n + eps I)), F the features, not centered
    Reference: Ionescu et al., Matrix Backpropagation for Deep Networks with Structured Layers, ICCV 2015
    Size: c^2
    Cost: n c^2 + about 10 c^3 (eigen-decomposition)

    The moment and its eigen-decomposition are computed in float64, as in the released code. In float32 the round-off
    of zero eigenvalues is as large as eps.

    Args:
        eps: Number added to every eigenvalue, in the unit of x squared.
        scale: The moment is F^T F ("none", as printed), F^T F / n ("mean") or F^T F / n^2 ("released", as in the only
            public code), where n is the number of kept positions.
        vectorization: All c^2 entries ("full") or the upper triangle.
        null_gradient: "released" drops the derivative between range and null space, see `covpool.ops.logm_eigh`.

    >>> import torch
    >>> LogEuclideanPool(4, vectorization="triangle")(torch.randn(2, 4, 7, 7)).shape
    torch.Size([2, 10])
    """

    normalizes = "moment"

    eps: float = 1e-3
    scale: Scale = "mean"
    vectorization: Vectorization = "full"
    null_gradient: NullGradient = "exact"

    def pooled_size(self, c: int) -> int:
        return vector_size(c, self.vectorization)

    def _build(self) -> None:
        if not 0 < self.eps < math.inf:
            raise CovpoolError(f"`eps` must be positive and finite because the moment may be singular; got {self.eps}")

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c**2 + 10 * c**3  # of the eigen-decomposition

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        exact = x.double()
        _, w = keep_positions(exact, mask, weights)
        moment = covariance(exact, mask=mask, weights=weights, centered=False)
        if self.scale != "mean":
            n = count(exact, w).clamp(min=1)[..., None, None]
            moment = moment * n if self.scale == "none" else moment / n
        z = logm_eigh(moment, eps=self.eps, null_gradient=self.null_gradient)
        return zero_if_empty(vectorize(z, self.vectorization), w).to(x.dtype)
