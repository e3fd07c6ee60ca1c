"""The inverse and log-determinant of symmetric positive definite matrices, differentiable to any order."""

from typing import Any

import torch
from torch import Tensor

from covpool.ops._autograd import Differentiable, keep
from covpool.ops._backend import exporting
from covpool.ops.precision import outside_autocast, product


class _SpdInverse(Differentiable):
    """(a^-1, log det a). Autocast would lower the products in torch's own derivative of the factor."""

    @staticmethod
    def forward(a: Tensor) -> tuple[Tensor, Tensor]:
        return _compute(a)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        keep(ctx, output[0])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (inverse,) = ctx.saved_tensors
        g_inverse, g_log_determinant = gradients
        with outside_autocast(inverse):
            return g_log_determinant[..., None, None] * inverse - product(product(inverse, g_inverse), inverse)

    @staticmethod
    def tangent(ctx: Any, da: Tensor) -> tuple[Tensor, Tensor]:
        (inverse,) = ctx.saved_tensors
        return -product(product(inverse, da), inverse), (inverse * da).sum((-2, -1))


def spd_inverse(a: Tensor) -> tuple[Tensor, Tensor]:  # (..., r, r) -> (..., r, r), (...)
    """a^-1 and log det a by Cholesky factors, without synchronizing the device; a must be positive definite."""
    if exporting():
        return _compute(a)
    return _SpdInverse.call(a)


def _compute(a: Tensor) -> tuple[Tensor, Tensor]:
    lower, failed = torch.linalg.cholesky_ex(a)
    one = torch.where(failed == 0, torch.ones((), dtype=a.dtype, device=a.device), torch.nan)  # NaN in, NaN out
    identity = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device) * one[..., None, None]
    half = torch.linalg.solve_triangular(lower, identity, upper=False)
    return half.mT @ half, 2 * lower.diagonal(dim1=-2, dim2=-1).log().sum(-1) * one
