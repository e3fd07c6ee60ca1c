"""The maximum likelihood estimate of a covariance with a von Neumann divergence as its regularizer (vN-MLE)."""

import torch
from torch import Tensor

from covpool._check_tensors import check_square
from covpool._errors import CovpoolError
from covpool.ops._spectral import SpectralFunction
from covpool.ops.eigh import eigh
from covpool.ops.elementary import symmetrize
from covpool.ops.powm_eigh import Threshold, check_options, null_threshold
from covpool.ops.precision import full_precision


@full_precision
def vn_mle_eigh(
    a: Tensor,  # (..., c, c)
    gamma: float,
    *,
    eps: Threshold | float = "rank",
) -> Tensor:  # (..., c, c)
    """The positive definite P that minimizes log|P| + tr(P^-1 a) + gamma tr(P - log P - I).

    P = U diag(sqrt(b^2 + l / gamma) - b) U^T, b = (1 - gamma) / (2 gamma), a = U diag(l) U^T. gamma = 1 gives the
    square root of `a`, gamma towards 0 gives `a` itself, and a large gamma the identity. Above 1, null eigenvalues
    become 1 - 1 / gamma rather than zero. At gamma = 1, null directions are treated as in `powm_eigh`.

    Args:
        a: Symmetric positive semi-definite matrices. Only their symmetric part counts.
        gamma: Positive weight of the regularizer, which compares `a` with the identity: the scale of `a` matters.
        eps: Eigenvalues at or below this count as zero, see `powm_eigh`.

    Shape: (..., c, c) -> (..., c, c).

    Reference: Wang et al., "RAID-G: Robust Estimation of Approximate Infinite Dimensional Gaussian with Application to
    Material Recognition"; "Deep CNNs Meet Global Covariance Pooling".

    >>> import torch
    >>> vn_mle_eigh(torch.diag(torch.tensor([4., 9., 0.])), 1.0).diagonal().tolist()
    [2.0, 3.0, 0.0]
    """
    check_square("a", a)
    check_options(eps, None, "exact")
    check_gamma(gamma)
    a = symmetrize(a)
    eigenvalues, u = eigh(a.detach())
    eigenvalues = torch.where(eigenvalues <= null_threshold(eigenvalues, eps, a.shape[-1]), 0, eigenvalues)
    weight = torch.full((), gamma, dtype=a.dtype, device=a.device)
    return SpectralFunction.call(a, weight, eigenvalues, u, "vn_mle")


def check_gamma(gamma: float) -> None:
    if not 0 < gamma < torch.inf:
        raise CovpoolError(f"`gamma` must be positive and finite; got {gamma}")
