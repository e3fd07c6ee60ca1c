"""The square root of a symmetric matrix by a Pade approximant (MPA)."""

import math

from torch import Tensor

from covpool._errors import check_positive_int
from covpool.ops._polynomial import polynomials
from covpool.ops._spd_inverse import spd_inverse
from covpool.ops.approximate_root import RootBackward, approximate_root
from covpool.ops.precision import full_precision, product


def pade_coefficients(order: int) -> tuple[list[int], list[int]]:
    """Numerator and denominator of the diagonal Pade approximant of sqrt(a) at a = 1, in powers of a.

    With r = sqrt(a) and m = 2 order + 1 it is r ((1 + r)^m + (1 - r)^m) / ((1 + r)^m - (1 - r)^m), so all coefficients
    are binomial and positive: no cancellation anywhere, unlike in powers of 1 - a.

    >>> pade_coefficients(1)  # (1 + 3 a) / (3 + a)
    ([1, 3], [3, 1])
    """
    m = 2 * order + 1
    return [math.comb(m, 2 * k) for k in range(order + 1)], [math.comb(m, 2 * k + 1) for k in range(order + 1)]


@full_precision
def sqrtm_pade(
    a: Tensor,  # (..., c, c)
    *,
    order: int = 5,
    backward: RootBackward = "iterative",
    steps: int = 8,
) -> Tensor:  # (..., c, c)
    """The square root of symmetric positive semi-definite matrices by the Pade approximant [order / order].

    sqrt(t) Q(A)^-1 P(A) with A = a / t, t = |a|_F: products for the two polynomials and one Cholesky factor. Small
    eigenvalues are overestimated: zero becomes sqrt(t) / (2 order + 1).

    Args:
        a: Symmetric positive semi-definite matrices. Only their symmetric part counts. Zero gives zero.
        order: Degree of P and of Q. The condition of Q, up to 4^order / (2 order + 1), costs accuracy: float32 keeps
            five digits at order 8 and three at order 12.
        backward: The derivative of the exact root at the result z, the solution x of z x + x z = g, by Newton-Schulz
            steps ("iterative", as published) or by eigen-decomposition ("lyapunov"); "autograd" is the derivative of
            what is computed, and the only one that can be differentiated again.
        steps: Number of steps of the iterative solution.

    Shape: (..., c, c) -> (..., c, c).

    Reference: Song, Sebe and Wang, "Fast Differentiable Matrix Square Root", MPA with the Lyapunov backward.

    >>> import torch
    >>> sqrtm_pade(torch.diag(torch.tensor([4., 9.]))).diagonal().round(decimals=4).tolist()
    [2.0, 3.0]
    """
    check_positive_int("order", order)
    return pade_root(a, order, backward, steps)


def pade_root(
    a: Tensor, order: int, backward: RootBackward, steps: int, *, symmetric: bool = False
) -> Tensor:  # (..., c, c) -> (..., c, c)
    """`sqrtm_pade` outside autocast; `symmetric` as in `approximate_root`."""
    numerator, denominator = pade_coefficients(order)

    def approximant(normalized: Tensor) -> Tensor:
        p, q = polynomials(normalized, numerator, denominator)
        inverse, _ = spd_inverse(q)  # the eigenvalues of q are within [2 order + 1, 4^order]
        return product(inverse, p)

    return approximate_root(a, approximant, backward, steps, symmetric)
