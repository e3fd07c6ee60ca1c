"""The square root of a symmetric matrix by Denman-Beavers iteration, which inverts instead of multiplying."""

from typing import Any

import torch
from torch import Tensor

from covpool._check_tensors import check_square
from covpool._errors import check_positive_int
from covpool.ops._autograd import Differentiable, keep
from covpool.ops.elementary import symmetrize
from covpool.ops.precision import full_precision, outside_autocast, product


class _Inverse(Differentiable):
    """The inverse, without synchronizing the device, and with derivatives that autocast does not lower."""

    @staticmethod
    def forward(a: Tensor) -> Tensor:
        inverse, _ = torch.linalg.inv_ex(a)
        return inverse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        keep(ctx, output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (inverse,) = ctx.saved_tensors
        with outside_autocast(g):
            return -product(product(inverse.mT, g), inverse.mT)

    @staticmethod
    def tangent(ctx: Any, da: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        return -product(product(inverse, da), inverse)


@full_precision
def sqrtm_denman_beavers(
    a: Tensor,  # (..., c, c)
    *,
    iterations: int = 5,
) -> Tensor:  # (..., c, c)
    """The square root of symmetric positive semi-definite matrices by Denman-Beavers iteration.

    Y = a / t with t = tr(a), Z = I, then T times Y, Z <- (Y + Z^-1) / 2, (Z + Y^-1) / 2; the result is sqrt(t) Y.
    With W = Z^-1 it is Y, W <- (Y + W) / 2, 2 Y (Y + W)^-1 W, the arithmetic and the harmonic mean. This gives the same
    Y with half the inverses, and inverts sums that are regular even where `a` is singular.

    It converges from above, and a step halves a value that is still far too large. After 5 steps the root of t / 100 is
    0.4 % too large, that of t / 1000 is 30 % too large, and that of zero is sqrt(t) / 32.

    Args:
        a: Symmetric positive semi-definite matrices. Only their symmetric part counts.
        iterations: Number of iterations T.

    Shape: (..., c, c) -> (..., c, c). Zero gives zero.

    Reference: Denman and Beavers, "The matrix sign function and computations in systems"; for pooling, Lin and Maji,
    "Improved Bilinear Pooling with CNNs".

    >>> import torch
    >>> sqrtm_denman_beavers(torch.diag(torch.tensor([4., 9.]))).diagonal().round(decimals=3).tolist()
    [2.0, 3.0]
    """
    check_square("a", a)
    check_positive_int("iterations", iterations)
    s = symmetrize(a)
    t = s.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    zero = t.abs() < torch.finfo(t.dtype).tiny
    t = torch.where(zero, 1, t)
    y, w = s / t, torch.eye(s.shape[-1], dtype=s.dtype, device=s.device).expand_as(s)
    for _ in range(iterations - 1):
        y, w = (y + w) * 0.5, 2 * product(product(y, _Inverse.call(y + w)), w)
    return torch.where(zero, 0, symmetrize(y + w) * 0.5 * t.sqrt())
