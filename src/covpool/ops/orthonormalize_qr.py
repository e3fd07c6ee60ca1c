"""A matrix with orthonormal columns from any matrix of full rank, by QR decomposition."""

import torch
from torch import Tensor

from covpool._check_tensors import check_floating
from covpool._errors import CovpoolError


def orthonormalize_qr(
    v: Tensor,  # (..., m, k), m >= k
) -> Tensor:  # (..., m, k)
    """The factor Q of v = Q R with a positive diagonal of R.

    As a parametrization it keeps a weight on the Stiefel manifold under any optimizer: a step on v is a step on Q with
    the QR retraction, and weight decay of v has no effect. The forward and backward passes are in float64, which
    autocast does not change.

    Args:
        v: Matrices of full rank with at least as many rows as columns.

    Shape: (..., m, k) -> (..., m, k).

    >>> import torch
    >>> orthonormalize_qr(torch.tensor([[3.], [4.]])).flatten().tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    check_floating("v", v)
    if v.ndim < 2 or not 1 <= v.shape[-1] <= v.shape[-2]:
        raise CovpoolError(f"`v` must have shape (..., m, k) with m >= k >= 1; got {tuple(v.shape)}")
    q, r = torch.linalg.qr(v.double())
    signs = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1, 1)
    return (q * signs.unsqueeze(-2)).to(v.dtype)
