"""Quotients and powers that are finite, with finite derivatives, where their argument is zero."""

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
