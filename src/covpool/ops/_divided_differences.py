"""Divided differences f[i, j] = (f(l_i) - f(l_j)) / (l_i - l_j), f[i, i] = f'(l_i), computed without cancellation.

They are the eigenvalues of the derivative of a spectral function (Daleckii-Krein), see docs/derivations.md. The second
ones, f[i, k, j] = (f[i, k] - f[k, j]) / (l_i - l_j), are in `_second_divided_differences`.
"""

import torch
from torch import Tensor

from covpool.ops.elementary import one_if_zero, reciprocal_or_zero


def of_power(
    eigenvalues: Tensor,  # (..., c), non-negative
    alpha: Tensor,  # ()
) -> Tensor:  # (..., c, c)
    """Divided differences of l^alpha.

    A pair (l, 0) gives l^(alpha - 1); a pair (0, 0), with an infinite slope for alpha < 1, gives 0 (1 if alpha = 1).
    """
    return power_of_pair(eigenvalues.unsqueeze(-1), eigenvalues.unsqueeze(-2), alpha)


def power_of_pair(left: Tensor, right: Tensor, alpha: Tensor) -> Tensor:
    """The divided difference of l^alpha for pairs of values, as h^(alpha - 1) expm1(alpha q) / r.

    h is the larger value of a pair, r = smaller / h - 1 and q = log(1 + r).
    """
    high, r, q = _ratios(left, right)
    null = high == 0
    high = one_if_zero(high)
    quotient = torch.where(r == 0, alpha, torch.expm1(alpha * q) / one_if_zero(r))
    return torch.where(null, (alpha == 1).to(high.dtype), high ** (alpha - 1) * quotient)


def of_log(
    eigenvalues: Tensor,  # (..., c), positive
) -> Tensor:  # (..., c, c)
    """Divided differences of log(l)."""
    return log_of_pair(eigenvalues.unsqueeze(-1), eigenvalues.unsqueeze(-2))


def log_of_pair(left: Tensor, right: Tensor) -> Tensor:
    """The divided difference of log(l) for pairs of positive values, as q / (r h)."""
    high, r, q = _ratios(left, right)
    return torch.where(r == 0, 1, q / one_if_zero(r)) / high


def of_clip(
    eigenvalues: Tensor,  # (..., c)
    low: float,
    high: float,
) -> Tensor:  # (..., c, c)
    """Divided differences of min(max(l, low), high); for two equal values, 1 inside the interval and 0 outside."""
    clipped = eigenvalues.clamp(low, high)
    steps = eigenvalues.unsqueeze(-1) - eigenvalues.unsqueeze(-2)
    equal = steps == 0
    slope = (clipped == eigenvalues).to(eigenvalues.dtype).unsqueeze(-1)
    rises = clipped.unsqueeze(-1) - clipped.unsqueeze(-2)
    return torch.where(equal, slope, rises / one_if_zero(steps))


def of_vn_mle(
    r: Tensor,  # (..., c), non-negative, see `_spectral.vn_mle`
    gamma: Tensor,  # ()
) -> Tensor:  # (..., c, c)
    """Divided differences of r(l) - b with r^2 = b^2 + l / gamma, as 1 / (gamma (r_i + r_j)); a pair (0, 0) gives 0."""
    return reciprocal_or_zero(r.unsqueeze(-1) + r.unsqueeze(-2)) / gamma


def _ratios(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The larger value h of each pair; r = (smaller - h) / h, which is exact for close values; and log(smaller / h)."""
    high, low = torch.maximum(left, right), torch.minimum(left, right)
    high_or_one = one_if_zero(high)
    r = (low - high) / high_or_one
    far = r < -0.5  # here 1 + r has lost digits of smaller / h, and the logarithms are far enough apart to subtract
    return high, r, torch.where(far, low.log() - high_or_one.log(), torch.log1p(r))


def of_newton_schulz_factor(
    a: Tensor,  # (b, n), eigenvalues in [0, 1], ascending
    iterations: int,
) -> tuple[Tensor, Tensor]:  # (b, n), (b, n, n)
    """p_N and its divided differences, for y_N = a p_N: p_(k+1) = p_k (3 - a p_k^2) / 2, p_0 = 1.

    p[i, j] follows the same recursion by the product rule, with a_j <= a_i so that nothing grows:
    p'[i, j] = (p[i, j] (3 - a_j (p_i^2 + p_i p_j + p_j^2)) - p_i^3) / 2.
    """
    p = (3 - a) / 2
    differences = torch.full_like(a, -0.5).unsqueeze(-1).expand(*a.shape, a.shape[-1])
    one = torch.ones_like(a)
    for _ in range(iterations - 1):
        left = torch.stack((p * p, p, one), -1)  # (b, n, 3)
        right = torch.stack((-a, -a * p, 3 - a * p * p), -2)  # (b, 3, n)
        differences = differences * (left @ right)
        differences = (differences - (p**3).unsqueeze(-1)) * 0.5
        p = p * (3 - a * p * p) / 2
    return p, differences.tril() + differences.tril(-1).mT
