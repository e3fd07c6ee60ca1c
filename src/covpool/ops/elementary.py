"""Elementary functions: quotients and powers that are finite at zero, with their derivatives; parts of matrices."""

import torch
from torch import Tensor


def one_if_zero(t: Tensor) -> Tensor:
    """t with ones in place of zeros, to divide numerators that are zero at the same places.

    >>> import torch
    >>> one_if_zero(torch.tensor([0., -2.])).tolist()
    [1.0, -2.0]
    """
    return torch.where(t == 0, 1, t)


def reciprocal_or_zero(t: Tensor) -> Tensor:
    """1 / t, and zero where |t| is below the smallest normal number of its dtype. NaN stays NaN.

    >>> import torch
    >>> reciprocal_or_zero(torch.tensor([0., -2.])).tolist()
    [0.0, -0.5]
    """
    zero = t.abs() < torch.finfo(t.dtype).tiny
    return torch.where(zero, 0, 1 / torch.where(zero, 1, t))


def power_or_zero(t: Tensor, alpha: float | Tensor) -> Tensor:
    """t^alpha of non-negative t, and zero with a zero derivative where t is zero, for negative alpha too.

    >>> import torch
    >>> power_or_zero(torch.tensor([0., 4.]), -0.5).tolist()
    [0.0, 0.5]
    """
    return torch.where(t == 0, 0, one_if_zero(t) ** alpha)


def symmetrize(a: Tensor) -> Tensor:
    """The symmetric part (a + a^T) / 2 of matrices (..., c, c).

    >>> import torch
    >>> symmetrize(torch.tensor([[1., 2.], [4., 3.]])).tolist()
    [[1.0, 3.0], [3.0, 3.0]]
    """
    return (a + a.mT) * 0.5


def inner(a: Tensor, b: Tensor) -> Tensor:
    """The Frobenius inner product <a, b> of matrices (..., m, n), kept as (..., 1, 1)."""
    return (a * b).sum((-2, -1), keepdim=True)


def frobenius_norm(a: Tensor) -> Tensor:
    """|a|_F of matrices (..., m, n), kept as (..., 1, 1), without overflow; zero with a zero derivative at zero."""
    largest = a.detach().abs().amax((-2, -1), keepdim=True)
    scaled = a / one_if_zero(largest)
    return largest * one_if_zero(inner(scaled, scaled)).sqrt()
