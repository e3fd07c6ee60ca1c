"""Powers of the singular values of a square matrix, exactly."""

from functools import partial

import torch
from torch import Tensor

from covpool._check_tensors import check_square
from covpool.ops import _divided_differences
from covpool.ops._spectral import ByDecomposition, eps_of
from covpool.ops.elementary import one_if_zero, symmetrize
from covpool.ops.powm_eigh import check_alpha
from covpool.ops.precision import full_precision


@full_precision
def powm_svd(
    a: Tensor,  # (..., c, c)
    alpha: float = 0.5,
) -> Tensor:  # (..., c, c)
    """U diag(s^alpha) V^T of square matrices a = U diag(s) V^T, symmetric or not.

    The derivative is exact on repeated and zero singular values, except between null directions, where it is infinite
    for alpha < 1 and zero here. Second derivatives raise an error.

    Args:
        a: Square matrices. Singular values at or below c eps(s_1), the spacing of floating point numbers at the largest
            times the order, count as zero.
        alpha: Exponent in (0, 2].

    Shape: (..., c, c) -> (..., c, c).

    Reference: Xie et al., "SoT: Delving Deeper into Classification Head for Transformer", svPN.

    >>> import torch
    >>> powm_svd(torch.tensor([[0., 4.], [-9., 0.]])).round(decimals=4).tolist()
    [[0.0, 2.0], [-3.0, 0.0]]
    """
    check_square("a", a)
    check_alpha(alpha, a)
    # the solver fails on a whole batch if one item has a NaN
    finite = (a.detach() * 0).sum((-2, -1), keepdim=True) == 0
    u, s, vh = torch.linalg.svd(torch.where(finite, a.detach(), 0))
    s = torch.where(s <= eps_of(s[..., :1]) * a.shape[-1], 0, s)
    s = torch.where(finite.squeeze(-1), s, torch.nan)
    value = (u * (s**alpha).unsqueeze(-2)) @ vh
    return ByDecomposition.call(a, value, s, u, vh, partial(_derivative, alpha=alpha))


def _derivative(h: Tensor, s: Tensor, u: Tensor, vh: Tensor, *, alpha: float) -> Tensor:
    """The derivative in the direction h, which is its own adjoint.

    In the bases of U and V, symmetric directions are scaled by (f_i - f_j) / (s_i - s_j) and skew-symmetric ones by
    (f_i + f_j) / (s_i + s_j), f = s^alpha.
    """
    m = u.mT @ h @ vh.mT
    f = s**alpha
    sums = s.unsqueeze(-1) + s.unsqueeze(-2)
    skew_factor = (f.unsqueeze(-1) + f.unsqueeze(-2)) / one_if_zero(sums)
    even = symmetrize(m)
    return u @ (_divided_differences.of_power(s, check_alpha(alpha, s)) * even + skew_factor * (m - even)) @ vh
