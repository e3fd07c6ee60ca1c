"""The upper triangle of a symmetric matrix as a vector, and back."""

import math

import torch
from torch import Tensor

from covpool._check_tensors import check_floating, check_square
from covpool._errors import CovpoolError


def _upper_positions(c: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows and columns of the upper triangle with the diagonal, row by row."""
    rows, columns = torch.triu_indices(c, c, device=device).unbind()
    return rows, columns


def vech(
    a: Tensor,  # (..., c, c)
    *,
    scale_offdiagonal: bool = False,
) -> Tensor:  # (..., c (c + 1) / 2)
    """The upper triangle with the diagonal, row by row.

    Args:
        a: Matrices, of which only the upper triangle is read.
        scale_offdiagonal: Multiply off-diagonal entries by sqrt(2), so that the inner product of two such vectors of
            symmetric matrices is the Frobenius inner product. The paper does not.

    Shape: (..., c, c) -> (..., c (c + 1) / 2).

    >>> import torch
    >>> vech(torch.tensor([[1., 2.], [2., 3.]])).tolist()
    [1.0, 2.0, 3.0]
    """
    check_square("a", a)
    c = a.shape[-1]
    rows, columns = _upper_positions(c, a.device)
    z = a.flatten(-2).index_select(-1, rows * c + columns)
    return z * _offdiagonal_scale(rows, columns, z) if scale_offdiagonal else z


def unvech(
    z: Tensor,  # (..., c (c + 1) / 2)
    *,
    scale_offdiagonal: bool = False,
) -> Tensor:  # (..., c, c)
    """The symmetric matrix whose upper triangle is z: the inverse of `vech` on symmetric matrices.

    >>> import torch
    >>> unvech(torch.tensor([1., 2., 3.])).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    check_floating("z", z)
    length = z.shape[-1] if z.ndim else 0
    c = (math.isqrt(8 * length + 1) - 1) // 2
    if length < 1 or c * (c + 1) // 2 != length:
        raise CovpoolError(f"`z` must have shape (..., c (c + 1) / 2), as 1, 3, 6, 10, ...; got {tuple(z.shape)}")
    if scale_offdiagonal:
        z = z / _offdiagonal_scale(*_upper_positions(c, z.device), z)
    return from_triangle(z, c)


def from_triangle(
    z: Tensor,  # (..., c (c + 1) / 2)
    c: int,
) -> Tensor:  # (..., c, c)
    """`unvech` for a known c, which a compiler with symbolic sizes cannot derive from the length."""
    rows, columns = _upper_positions(c, z.device)
    place = torch.empty(c, c, dtype=torch.long, device=z.device)
    place[rows, columns] = place[columns, rows] = torch.arange(z.shape[-1], device=z.device)
    # not unflatten, which `is_grads_batched=True` does not take
    return z.index_select(-1, place.flatten()).reshape(*z.shape[:-1], c, c)


def _offdiagonal_scale(rows: Tensor, columns: Tensor, like: Tensor) -> Tensor:
    return torch.where(rows == columns, 1.0, math.sqrt(2)).to(like.dtype)
