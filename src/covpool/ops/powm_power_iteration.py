"""Powers of the leading singular values of a matrix by power iteration, with the others scaled by one factor."""

import torch
from torch import Tensor

from covpool._check_tensors import check_floating
from covpool._errors import CovpoolError, check_positive_int
from covpool.ops.elementary import frobenius_norm, one_if_zero, power_or_zero
from covpool.ops.precision import full_precision, product


@full_precision
def powm_power_iteration(
    a: Tensor,  # (..., m, n)
    start: Tensor,  # (n,)
    *,
    alpha: float = 0.5,
    rank: int = 1,
    iterations: int = 1,
    eps: float = 1e-5,
) -> Tensor:  # (..., m, n)
    """sum_(k <= r) s_k^alpha u_k v_k^T + (a - sum_(k <= r) s_k u_k v_k^T) / (s_r^(1 - alpha) + eps).

    The triples (u_k, s_k, v_k) are found one after another by power iteration from `start` on the remainder of a:
    u <- a v / |a v|, v <- a^T u / |a^T u|, s = |a^T u|. Where the iteration has converged, the first r singular values
    are raised to alpha and the smaller ones divided by the factor that brings the last of these to its power.

    Args:
        a: Matrices of any shape.
        start: Start vector of every power iteration; it may require grad.
        alpha: Exponent in (0, 1].
        rank: Number r of leading singular values.
        iterations: Steps of each power iteration; at least 2 for r > 1.
        eps: Number that keeps the division finite, in the unit of a^(1 - alpha); 1e-5 as in the released code.

    Shape: (..., m, n), (n,) -> (..., m, n). Zero gives zero, and so does a matrix of subnormal numbers.

    Reference: Xie et al., "SoT: Delving Deeper into Classification Head for Transformer", fast approximate svPN.

    >>> import torch
    >>> powm_power_iteration(torch.tensor([[4., 0.], [0., 1.]]), torch.tensor([1., 0.])).round(decimals=3).tolist()
    [[2.0, 0.0], [0.0, 0.5]]
    """
    check_floating("a", a)
    check_options(alpha, rank, iterations)
    if a.ndim < 2 or start.shape != a.shape[-1:]:
        raise CovpoolError(
            f"`a` must have shape (..., m, n) and `start` (n,); got {tuple(a.shape)} and {tuple(start.shape)}"
        )
    a, unit = _near_one(a)
    total = torch.zeros_like(a)
    for _ in range(rank):
        v = start.to(a.dtype).unsqueeze(-1).expand(*a.shape[:-2], -1, -1)
        for _ in range(iterations):
            u = _unit(product(a, v))[0]
            v, s = _unit(product(a.mT, u))
        outer = u * v.mT
        total = total + power_or_zero(unit * s, alpha) * outer
        a = a - s * outer
    return total + unit * a / (power_or_zero(unit * s, 1 - alpha) + eps)


def check_options(alpha: float, rank: int, iterations: int) -> None:
    """Require settings for which the iteration is defined."""
    check_positive_int("rank", rank)
    check_positive_int("iterations", iterations)
    if rank > 1 and iterations == 1:
        raise CovpoolError(
            f"`rank` = {rank} needs `iterations` >= 2: what one step leaves of a matrix maps the start vector to zero"
        )
    if not 0 < alpha <= 1:
        raise CovpoolError(f"`alpha` must be in (0, 1]; got {alpha}")


def _near_one(a: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices with a largest entry of about one, and the power of two that each is in units of.

    In the derivative, quotients by the norms of very small matrices would overflow. Below the normal numbers, a matrix
    counts as zero.
    """
    largest = a.detach().abs().amax((-2, -1), keepdim=True)
    limits = torch.finfo(a.dtype)
    subnormal = largest < limits.tiny
    unit = torch.where(subnormal, 1, largest).clamp(max=limits.max / 4).log2().floor().exp2()
    return torch.where(subnormal, 0, a) / unit, unit


def _unit(v: Tensor) -> tuple[Tensor, Tensor]:
    """v / |v| and |v|; zero stays zero."""
    norm = frobenius_norm(v)
    return v / one_if_zero(norm), norm
