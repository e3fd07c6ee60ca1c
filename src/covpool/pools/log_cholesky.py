"""Covariance pooling under the log-Cholesky metric."""

from typing import Literal

from torch import Tensor

from covpool.ops.log_cholesky import check_eps
from covpool.ops.log_cholesky_covariance import log_cholesky_covariance
from covpool.ops.positions import keep_positions, zero_if_empty
from covpool.pools._triangle import TrianglePool
from covpool.pools.base import register

Coordinates = Literal["tangent", "coordinates"]


@register("log_cholesky", title="Log-Cholesky (Cho-TMLR)", order="2")
class LogCholeskyPool(TrianglePool):
    """The Cholesky factor of the covariance with the logarithm of its diagonal, column by column.

    Formula: z = vech(strict(L) + strict(L)^T + 2 log diag(L)), L L^T = Sigma + e I
    Reference: Chen et al., Understanding Matrix Function Normalizations in Covariance Pooling, ICLR 2025; Lin, SIMAX
    2019
    Size: c (c + 1) / 2
    Cost: n c^2 + c^3 / 3

    It is computed in float64, as in the released code: in float32 the factorization of a singular covariance fails.

    Args:
        form: "tangent" doubles the diagonal and is the logarithm at the identity under the log-Cholesky metric, as
            published for covariance pooling. "coordinates" does not double it, so that Euclidean distances between
            vectors are log-Cholesky distances.
        eps, relative: Number added to the diagonal of the covariance, see `covpool.ops.log_cholesky`.

    >>> import torch
    >>> LogCholeskyPool(64)(torch.randn(2, 64, 7, 7)).shape
    torch.Size([2, 2080])
    """

    form: Coordinates = "tangent"
    eps: float = 1e-6
    relative: bool = True

    def _build(self) -> None:
        check_eps(self.eps)

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c**2 + c**3 / 3

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        kept, w = keep_positions(x if mask is None and weights is None else x.double(), mask, weights)
        factor = 2 if self.form == "tangent" else 1
        z = log_cholesky_covariance(kept, w, eps=self.eps, relative=self.relative, factor=factor)
        return zero_if_empty(z, w).to(x.dtype)
