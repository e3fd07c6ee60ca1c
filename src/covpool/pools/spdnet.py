"""Covariance pooling by the layers of SPDNet: BiMap, ReEig, LogEig."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError, check_positive_int
from covpool.ops import clip_eigh, covariance, orthonormalize_qr, product
from covpool.ops.clip_eigh import check_bounds
from covpool.ops.positions import count, keep_positions, zero_if_empty
from covpool.pools._vectorization import Vectorization, vector_size, vectorize
from covpool.pools.base import Pool, register

Manifold = Literal["stiefel", "free"]


class BilinearMap(nn.Module):
    """BiMap: W^T a W, a matrix of a smaller order.

    Args:
        rows, columns: Shape of W.
        manifold: "stiefel" keeps the columns of W orthonormal: W is the factor Q of the parameter. "free" uses the
            parameter itself.
    """

    def __init__(self, rows: int, columns: int, manifold: Manifold) -> None:
        super().__init__()
        self.manifold = manifold
        self.parameter = nn.Parameter(orthonormalize_qr(torch.randn(rows, columns)).contiguous())

    @property
    def weight(self) -> Tensor:  # (rows, columns)
        return orthonormalize_qr(self.parameter) if self.manifold == "stiefel" else self.parameter

    def forward(self, a: Tensor) -> Tensor:  # (b, rows, rows) -> (b, columns, columns)
        w = self.weight
        half = product(a.flatten(0, 1), w).unflatten(0, a.shape[:2])
        return product(half.mT.flatten(0, 1), w).unflatten(0, (a.shape[0], w.shape[1])).mT

    def extra_repr(self) -> str:
        rows, columns = self.parameter.shape
        return f"{rows}, {columns}, manifold={self.manifold!r}"


@register("spdnet", title="SPDNet layers", order="2")
class ManifoldPool(Pool):
    """The logarithm of the covariance after bilinear maps to smaller orders, with eigenvalues clipped after each map.

    Formula: z = vec(log(ReEig(W^T (Sigma + 1e-4 tr(Sigma) I) W)))
    Reference: Acharya et al., Covariance Pooling for Facial Expression Recognition, CVPRW 2018
    Size: c^2 / 4
    Cost: n c^2 + 3/4 c^3 + about 10 (c / 2)^3 (eigen-decomposition)

    Args:
        dims: Order of the matrix after each BiMap and ReEig; by default one step to half the channels.
        manifold: "stiefel" keeps the weights orthonormal under any optimizer; "free" trains them without a constraint,
            as the released code does.
        regularizer: Number added to the diagonal in units of the trace; 1e-3 in the authors' temporal model.
        bounds: Smallest and largest eigenvalue after ReEig, in the unit of x squared.
        vectorization: All entries ("full") or the upper triangle.

    >>> import torch
    >>> ManifoldPool(16)(torch.randn(2, 16, 7, 7)).shape
    torch.Size([2, 64])
    """

    dims: int | Sequence[int] | None = None
    manifold: Manifold = "stiefel"
    regularizer: float = 1e-4
    bounds: tuple[float, float] = (1e-4, 1e4)
    vectorization: Vectorization = "full"

    def pooled_size(self, c: int) -> int:
        return vector_size(_orders(c, self.dims)[-1], self.vectorization)

    def _build(self) -> None:
        check_bounds(*self.bounds)
        if not 0 <= self.regularizer < math.inf:
            raise CovpoolError(f"`regularizer` must be finite and not negative; got {self.regularizer}")
        orders = _orders(self.channels[0], self.dims)
        self.maps = nn.ModuleList(BilinearMap(m, k, self.manifold) for m, k in pairwise(orders))

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c**2 + 0.75 * c**3 + 10 * (c / 2) ** 3  # of the eigen-decomposition, with the default `dims`

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        _, w = keep_positions(x, mask, weights)
        n = count(x, w)[..., None, None]
        a = covariance(x, mask=mask, weights=weights) * (n / (n - 1).clamp(min=1))
        trace = a.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        a = a + self.regularizer * trace * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
        low, high = self.bounds
        *inner, last = self.maps
        for bilinear in inner:
            a = clip_eigh(bilinear(a), low=low, high=high)
        z = clip_eigh(last(a), low=low, high=high, log=True)
        return zero_if_empty(vectorize(z, self.vectorization), w)


def _orders(c: int, dims: int | Sequence[int] | None) -> list[int]:
    """Return the orders of the matrices, starting with c; a map to a larger order has no orthonormal columns."""
    steps = (max(c // 2, 1),) if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    orders = [c, *steps]
    for order in orders:
        check_positive_int("dims", order)
    if len(orders) < 2 or any(k > m for m, k in pairwise(orders)):
        raise CovpoolError(f"`dims` must be non-increasing orders of at most {c}, the number of channels; got {dims}")
    return orders
