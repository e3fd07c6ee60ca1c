"""Coordinates of positive definite matrices under the log-Cholesky metric."""

import torch
from torch import Tensor

from covpool._check_tensors import check_square
from covpool._errors import CovpoolError
from covpool.ops.elementary import symmetrize
from covpool.ops.precision import full_precision


@full_precision
def log_cholesky(
    a: Tensor,  # (..., c, c)
    *,
    eps: float = 1e-6,
    relative: bool = True,
) -> Tensor:  # (..., c, c), lower triangular
    """The Cholesky factor of a + e I with the logarithm of its diagonal: strict(L) + log(diag(L)), L L^T = a + e I.

    The log-Cholesky distance of two matrices is the Frobenius distance of these matrices. The computation is in
    float64, as in the released code.

    Args:
        a: Symmetric positive semi-definite matrices. Only their symmetric part counts. A matrix that is not positive
            definite even with e gives NaN.
        eps: Defines e: eps times the mean of the diagonal of `a`, or eps itself, in the unit of `a`, for
            relative=False. e is at least the trace times c times the round-off of the dtype, below which there may be
            no factor. For a zero matrix, which has no scale, the mean counts as one.
        relative: See eps. The released code has eps = 1e-6 in the unit of `a`.

    Shape: (..., c, c) -> (..., c, c).

    Reference: Lin, "Riemannian Geometry of Symmetric Positive Definite Matrices via Cholesky Decomposition".

    >>> import torch
    >>> log_cholesky(torch.tensor([[1., 2.], [2., 5.]], dtype=torch.double), eps=1e-12).round(decimals=9).tolist()
    [[0.0, 0.0], [2.0, 0.0]]
    """
    check_square("a", a)
    check_eps(eps)
    a, dtype = symmetrize(a).double(), a.dtype
    e, _ = diagonal_shift(a.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None], a.shape[-1], eps, relative, dtype)
    factor, failed = torch.linalg.cholesky_ex(a + e * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device))
    factor = torch.where(failed[..., None, None] == 0, factor, torch.nan)
    return (factor.tril(-1) + factor.diagonal(dim1=-2, dim2=-1).log().diag_embed()).to(dtype)


def diagonal_shift(trace: Tensor, order: int, eps: float, relative: bool, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """e for matrices of this trace and order, and the slope of e in the trace."""
    zero = trace == 0
    slope = torch.where(zero, 0, eps / order) if relative else torch.zeros_like(trace)
    least = order * torch.finfo(dtype).eps
    asked = eps * (torch.where(zero, 1, trace / order) if relative else torch.ones_like(trace))
    return torch.maximum(asked, trace * least), torch.where(trace * least > asked, least, slope)


def check_eps(eps: float) -> None:
    """Require a positive eps, which makes singular matrices regular."""
    if not eps > 0:
        raise CovpoolError(f"`eps` must be positive; got {eps}")
