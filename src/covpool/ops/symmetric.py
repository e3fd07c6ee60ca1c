"""The symmetric part, the inner product and the norm of matrices."""

from torch import Tensor

from covpool.ops.safe_division import one_if_zero


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
