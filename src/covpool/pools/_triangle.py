"""The base of pools whose vector is the upper triangle of a matrix of the order of the channels."""

from covpool.pools._vectorization import triangle
from covpool.pools.base import Pool


class TrianglePool(Pool):
    """A pool whose vector is the upper triangle of a c x c matrix; by default at the cost of a covariance."""

    def pooled_size(self, c: int) -> int:
        return triangle(c)

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c**2
