"""Eigenvalues of symmetric matrices clipped to an interval (ReEig), and the logarithm of the result (LogEig)."""

from functools import partial

from torch import Tensor

from covpool._check_tensors import check_square
from covpool._errors import CovpoolError
from covpool.ops import _divided_differences
from covpool.ops._spectral import ByDecomposition, compose, rotate
from covpool.ops.eigh import eigh
from covpool.ops.elementary import symmetrize
from covpool.ops.precision import full_precision


def _derivative(h: Tensor, eigenvalues: Tensor, u: Tensor, _: None, *, low: float, high: float, log: bool) -> Tensor:
    """U (D o (U^T sym(H) U)) U^T; the divided differences of a composition are products of those of its parts."""
    d = _divided_differences.of_clip(eigenvalues, low, high)
    if log:
        d = d * _divided_differences.of_log(eigenvalues.clamp(low, high))
    return u @ (d * rotate(u, h)) @ u.mT


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
    clipped = eigenvalues.clamp(low, high)
    value = compose(u, clipped.log() if log else clipped)
    derivative = partial(_derivative, low=low, high=high, log=log)
    return ByDecomposition.call(s, value, eigenvalues, u, None, derivative)


def check_bounds(low: float, high: float) -> None:
    if not 0 < low < high:
        raise CovpoolError(f"the interval of eigenvalues must have 0 < low < high; got low={low}, high={high}")
