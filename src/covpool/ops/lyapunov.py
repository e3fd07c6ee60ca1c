"""The Lyapunov equation of symmetric matrices, the exact adjoint of the matrix square root."""

from typing import Any

import torch
from torch import Tensor

from covpool._check_tensors import check_square
from covpool._errors import CovpoolError
from covpool.ops._autograd import Differentiable, keep
from covpool.ops._spectral import eps_of
from covpool.ops.eigh import eigh
from covpool.ops.elementary import symmetrize
from covpool.ops.precision import at_least_float32, full_precision, outside_autocast


def _solve(a: Tensor, q: Tensor) -> Tensor:
    eigenvalues, u = eigh(a)
    sums = eigenvalues.unsqueeze(-1) + eigenvalues.unsqueeze(-2)
    null = sums.abs() <= 2 * a.shape[-1] * eps_of(eigenvalues.abs().amax(-1, keepdim=True)).unsqueeze(-1)
    reciprocal = torch.where(null, 0, 1 / torch.where(null, 1, sums))
    return u @ (reciprocal * (u.mT @ q @ u)) @ u.mT


class _Lyapunov(Differentiable):
    """x with a x + x a = q. Its derivatives are Lyapunov equations too, so it has derivatives of any order."""

    @staticmethod
    def forward(a: Tensor, q: Tensor) -> Tensor:
        return _solve(a, q)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        keep(ctx, inputs[0], output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        a, x = ctx.saved_tensors
        with outside_autocast(g):
            dq = _Lyapunov.call(a, g)
            return -(dq @ x.mT + x.mT @ dq), dq

    @staticmethod
    def tangent(ctx: Any, da: Tensor | None, dq: Tensor | None) -> Tensor:
        a, x = ctx.saved_tensors
        right = torch.zeros_like(x) if dq is None else dq
        if da is not None:
            right = right - (da @ x + x @ da)
        return _Lyapunov.call(a, right)


@full_precision
def lyapunov_solve(
    a: Tensor,  # (..., c, c)
    q: Tensor,  # (..., c, c)
) -> Tensor:  # (..., c, c)
    """The solution x of a x + x a = q, by eigen-decomposition of a.

    With a = Z the square root of Sigma and q the gradient of a loss in Z, x is the gradient in Sigma.

    Args:
        a: Symmetric positive semi-definite matrices. Only their symmetric part counts.
        q: Right-hand sides, symmetric or not.

    Where the sum of two eigenvalues is zero within round-off, the equation has no unique solution. That component of x
    is zero, which gives the solution of least norm.

    Shape: (..., c, c), (..., c, c) -> (..., c, c), leading dimensions broadcast.

    Reference: Lin and Maji, "Improved Bilinear Pooling with CNNs".

    >>> import torch
    >>> lyapunov_solve(torch.diag(torch.tensor([1., 3.])), torch.ones(2, 2))
    tensor([[0.5000, 0.2500],
            [0.2500, 0.1667]])
    """
    a, q = check_equation(a, q)
    return _Lyapunov.call(a, q)


def check_equation(a: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Check both sides of the equation; return sym(a) and q with the same leading dimensions."""
    check_square("a", a)
    check_square("q", q)
    if a.shape[-1] != q.shape[-1]:
        raise CovpoolError(f"`a` and `q` must have the same order; got {tuple(a.shape)} and {tuple(q.shape)}")
    a, q = torch.broadcast_tensors(symmetrize(a), at_least_float32(q))
    return a, q
