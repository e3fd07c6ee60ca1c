"""Eigenvalues of symmetric matrices clipped to an interval (ReEig), and the logarithm of the result (LogEig)."""

from typing import Any

from torch import Tensor

from covpool._check_tensors import check_square
from covpool._errors import CovpoolError
from covpool.ops import _divided_differences
from covpool.ops._autograd import Differentiable
from covpool.ops._spectral import compose, once, rotate
from covpool.ops.eigh import eigh
from covpool.ops.precision import full_precision, outside_autocast
from covpool.ops.symmetric import symmetrize


def _derivative(eigenvalues: Tensor, u: Tensor, h: Tensor, low: float, high: float, log: bool) -> Tensor:
    """U (D o (U^T sym(H) U)) U^T; the divided differences of a composition are products of those of its parts."""
    d = _divided_differences.of_clip(eigenvalues, low, high)
    if log:
        d = d * _divided_differences.of_log(eigenvalues.clamp(low, high))
    return u @ (d * rotate(u, h)) @ u.mT


class _Clip(Differentiable):
    """U f(L) U^T for a given decomposition of s, f(l) = clip(l) or log(clip(l)); once differentiable."""

    @staticmethod
    def forward(s: Tensor, eigenvalues: Tensor, u: Tensor, low: float, high: float, log: bool) -> Tensor:
        clipped = eigenvalues.clamp(low, high)
        return compose(u, clipped.log() if log else clipped)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        s, eigenvalues, u = ctx.saved_tensors
        with outside_autocast(g):
            return once(_derivative(eigenvalues, u, g, *ctx.options), s, None), None, None, None, None, None

    @staticmethod
    def tangent(ctx: Any, ds: Tensor, *_: None) -> Tensor:
        s, eigenvalues, u = ctx.saved_tensors
        return once(_derivative(eigenvalues, u, ds, *ctx.options), s, None)


@full_precision
def clip_eigh(
    a: Tensor,  # (..., c, c)
    *,
    low: float = 1e-4,
    high: float = 1e4,
    log: bool = False,
) -> Tensor:  # (..., c, c)
    """U diag(min(max(l, low), high)) U^T, or the logarithm of that matrix by the same decomposition.

    The derivative is exact on repeated eigenvalues. Second derivatives raise an error.

    Args:
        a: Symmetric matrices. Only their symmetric part counts.
        low, high: Bounds of the eigenvalues, in the unit of `a`.
        log: Take the logarithm of the clipped eigenvalues.

    Shape: (..., c, c) -> (..., c, c).

    Reference: Huang and Van Gool, "A Riemannian Network for SPD Matrix Learning", ReEig and LogEig; the upper bound:
    Acharya et al., "Covariance Pooling for Facial Expression Recognition".

    >>> import torch
    >>> clip_eigh(torch.diag(torch.tensor([0., 2., 9.])), low=1., high=5.).diagonal().tolist()
    [1.0, 2.0, 5.0]
    """
    check_square("a", a)
    check_bounds(low, high)
    s = symmetrize(a)
    eigenvalues, u = eigh(s.detach())
    z: Tensor = _Clip.call(s, eigenvalues, u, low, high, log)
    return z


def check_bounds(low: float, high: float) -> None:
    if not 0 < low < high:
        raise CovpoolError(f"the interval of eigenvalues must have 0 < low < high; got low={low}, high={high}")
