"""A symmetric matrix as a vector: all of it, or its upper triangle."""

from typing import Literal

from torch import Tensor

from covpool.ops import vech
from covpool.pools.triangle import triangle

Vectorization = Literal["full", "triangle"]
VECTORIZATIONS: tuple[Vectorization, ...] = ("full", "triangle")


def vector_size(order: int, vectorization: Vectorization) -> int:
    """The length of the vector of a matrix of this order.

    >>> vector_size(4, "full"), vector_size(4, "triangle")
    (16, 10)
    """
    return order * order if vectorization == "full" else triangle(order)


def vectorize(
    a: Tensor,  # (b, c, c)
    vectorization: Vectorization,
) -> Tensor:  # (b, d)
    """All entries row by row, or those of the upper triangle with the diagonal."""
    return a.flatten(-2) if vectorization == "full" else vech(a)
