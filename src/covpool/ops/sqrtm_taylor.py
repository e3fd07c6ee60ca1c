"""The square root of a symmetric matrix by a Taylor polynomial (MTP)."""

import torch
from torch import Tensor

from covpool._errors import check_positive_int
from covpool.ops._polynomial import polynomials
from covpool.ops.approximate_root import RootBackward, approximate_root
from covpool.ops.precision import full_precision


def taylor_coefficients(degree: int) -> list[float]:
    """The coefficients of sqrt(1 - w) in powers of w.

    >>> taylor_coefficients(3)
    [1.0, -0.5, -0.125, -0.0625]
    """
    coefficients = [1.0]
    for k in range(1, degree + 1):
        coefficients.append(coefficients[-1] * (2 * k - 3) / (2 * k))
    return coefficients


@full_precision
def sqrtm_taylor(
    a: Tensor,  # (..., c, c)
    *,
    degree: int = 10,
    backward: RootBackward = "iterative",
    steps: int = 8,
) -> Tensor:  # (..., c, c)
    """The square root of symmetric positive semi-definite matrices by the Taylor polynomial of sqrt(1 - w) at zero.

    sqrt(t) f(I - A) with A = a / t, t = |a|_F, by matrix products alone. Small eigenvalues are overestimated, more than
    by `sqrtm_pade`: with degree 10 zero becomes 0.176 sqrt(t).

    Args:
        a: Symmetric positive semi-definite matrices. Only their symmetric part counts. Zero gives zero.
        degree: Degree of the polynomial.
        backward, steps: See `sqrtm_pade`.

    Shape: (..., c, c) -> (..., c, c).

    Reference: Song, Sebe and Wang, "Fast Differentiable Matrix Square Root", MTP with the Lyapunov backward.

    >>> import torch
    >>> sqrtm_taylor(torch.diag(torch.tensor([4., 9.]))).diagonal().round(decimals=2).tolist()
    [2.0, 3.0]
    """
    check_positive_int("degree", degree)
    return taylor_root(a, degree, backward, steps)


def taylor_root(
    a: Tensor, degree: int, backward: RootBackward, steps: int, *, symmetric: bool = False
) -> Tensor:  # (..., c, c) -> (..., c, c)
    """`sqrtm_taylor` outside autocast; `symmetric` as in `approximate_root`."""
    coefficients = taylor_coefficients(degree)

    def approximant(normalized: Tensor) -> Tensor:
        identity = torch.eye(normalized.shape[-1], dtype=normalized.dtype, device=normalized.device)
        (root,) = polynomials(identity - normalized, coefficients)
        return root

    return approximate_root(a, approximant, backward, steps, symmetric)
