"""Any power of a positive semi-definite matrix by eigen-decomposition."""

from typing import Any, Literal

import torch
from torch import Tensor

from covpool._check_tensors import check_square
from covpool._errors import CovpoolError, check_choice
from covpool.ops._autograd import Differentiable
from covpool.ops._spectral import SpectralFunction, SpectralKind, compose, eps_of, once
from covpool.ops.eigh import eigh
from covpool.ops.elementary import frobenius_norm, inner, one_if_zero, reciprocal_or_zero, symmetrize
from covpool.ops.precision import full_precision, outside_autocast

Threshold = Literal["rank", "paper"]
Normalization = Literal["spectral", "frobenius"]
NullGradient = Literal["exact", "released"]


@full_precision
def powm_eigh(
    a: Tensor,  # (..., c, c)
    alpha: float | Tensor,
    *,
    eps: Threshold | float = "rank",
    normalization: Normalization | None = None,
    null_gradient: NullGradient = "exact",
) -> Tensor:  # (..., c, c)
    """a^alpha = U diag(l^alpha) U^T of positive semi-definite matrices.

    The derivative is exact on repeated, zero and rank-deficient spectra. Where `a` is singular and alpha < 1 the
    derivative is infinite between null directions. That block is set to zero, which makes the derivative with respect
    to the features of a covariance `a` exact. So are second derivatives, while the features keep their rank. They are
    refused in alpha and with null_gradient="released".

    Args:
        a: Symmetric positive semi-definite matrices. Only their symmetric part counts.
        alpha: Exponent in (0, 2]. A tensor may require grad.
        eps: Eigenvalues at or below this count as zero: "rank" is c eps(l_1), the spacing of floating point numbers at
            the largest eigenvalue times the order; "paper" is eps(l_1); a number is taken as it is, in the unit of `a`.
        normalization: Divide by the largest eigenvalue ("spectral") or the Frobenius norm of the result.
        null_gradient: "released" drops the derivative between range and null space, as the paper's released code does.

    Shape: (..., c, c) -> (..., c, c).

    Reference: "Deep CNNs Meet Global Covariance Pooling", MPN-COV; M-l2 and M-Fro.

    >>> import torch
    >>> powm_eigh(torch.diag(torch.tensor([4., 9., 0.])), 0.5).diagonal().tolist()
    [2.0, 3.0, 0.0]
    """
    check_square("a", a)
    check_options(eps, normalization, null_gradient)
    power = check_alpha(alpha, a)
    a = symmetrize(a)
    eigenvalues, u = eigh(a.detach())
    eigenvalues = torch.where(eigenvalues <= null_threshold(eigenvalues, eps, a.shape[-1]), 0, eigenvalues)
    kind: SpectralKind = "power" if null_gradient == "exact" else "power_released"
    z: Tensor = SpectralFunction.call(a, power, eigenvalues, u, kind)
    return divide_by_norm(z, u[..., -1:], normalization)


def divide_by_norm(
    z: Tensor,  # (..., c, c)
    top: Tensor,  # (..., c, 1), the eigenvector of the largest eigenvalue
    normalization: Normalization | None,
) -> Tensor:  # (..., c, c)
    """z divided by its spectral or Frobenius norm, or z itself; zero stays zero."""
    if normalization is None:
        return z
    norm = _LargestValue.call(z, top) if normalization == "spectral" else frobenius_norm(z)
    return z / one_if_zero(norm)


class _LargestValue(Differentiable):
    """The largest eigenvalue of z, given its eigenvector; twice differentiable where it is a single one."""

    @staticmethod
    def forward(z: Tensor, top: Tensor) -> Tensor:
        return inner(z, top * top.mT)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return g * _TopProjection.call(*ctx.saved_tensors), None

    @staticmethod
    def tangent(ctx: Any, dz: Tensor, _: Any) -> Tensor:
        return inner(dz, _TopProjection.call(*ctx.saved_tensors))


class _TopProjection(Differentiable):
    """u u^T for the eigenvector u of the largest eigenvalue of z; once differentiable.

    The derivative in a symmetric direction H is R H u u^T + u u^T H R, and it is its own adjoint. R has the
    eigenvectors of z, and the eigenvalues 1 / (l_1 - l_j), or 0 where l_j = l_1.
    """

    @staticmethod
    def forward(z: Tensor, top: Tensor) -> Tensor:
        return top * top.mT

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        with outside_autocast(g):
            return _TopProjection.tangent(ctx, g, None), None

    @staticmethod
    def tangent(ctx: Any, dz: Tensor, _: Any) -> Tensor:
        z, top = ctx.saved_tensors
        eigenvalues, u = eigh(z.detach())
        largest = eigenvalues[..., -1:]
        gap = largest - eigenvalues
        gap = torch.where(gap <= eps_of(largest) * z.shape[-1], 0, gap)
        half = compose(u, reciprocal_or_zero(gap)) @ (symmetrize(dz) @ top) * top.mT
        return once(half + half.mT, z, None)


def check_options(eps: Threshold | float, normalization: Normalization | None, null_gradient: NullGradient) -> None:
    if isinstance(eps, str):
        check_choice("eps", eps, ("rank", "paper"))
    elif not eps >= 0:
        raise CovpoolError(f"`eps` must not be negative, or round-off below zero has no power; got {eps}")
    check_choice("normalization", normalization, (None, "spectral", "frobenius"))
    check_choice("null_gradient", null_gradient, ("exact", "released"))


def check_alpha(alpha: float | Tensor, like: Tensor) -> Tensor:
    if isinstance(alpha, Tensor):
        if alpha.numel() != 1:
            raise CovpoolError(f"`alpha` must be one number; got a tensor of shape {tuple(alpha.shape)}")
        return alpha.to(like.dtype).reshape(())
    if not 0 < alpha <= 2:
        raise CovpoolError(f"`alpha` must be in (0, 2]; got {alpha}")
    # unlike torch.tensor, torch.full does not synchronize the GPU
    return torch.full((), alpha, dtype=like.dtype, device=like.device)


def null_threshold(
    eigenvalues: Tensor,  # (..., r), the largest last
    eps: Threshold | float,
    order: int,
) -> Tensor | float:
    """The threshold at or below which eigenvalues of a matrix of this order count as zero."""
    if not isinstance(eps, str):
        return eps
    spacing = eps_of(eigenvalues[..., -1:])
    return spacing * order if eps == "rank" else spacing
