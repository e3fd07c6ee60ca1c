"""Symmetric matrices as vectors: all entries, or the upper triangle."""

from typing import Literal

from torch import Tensor

from covpool.ops import vech

Vectorization = Literal["full", "triangle"]


def triangle(order: int) -> int:
    """Return order (order + 1) / 2, the number of entries in the upper triangle of a square matrix.

    >>> triangle(256)
    32896
    """
    return order * (order + 1) // 2


def vector_size(order: int, vectorization: Vectorization) -> int:
    """Return the length of the vector made from a matrix of this order.

    >>> vector_size(4, "full"), vector_size(4, "triangle")
    (16, 10)
    """
    return order * order if vectorization == "full" else triangle(order)


def vectorize(
    a: Tensor,  # (b, c, c)
    vectorization: Vectorization,
) -> Tensor:  # (b, d)
    """Return all entries row by row, or the entries of the upper triangle including the diagonal."""
    return a.flatten(-2) if vectorization == "full" else vech(a)
