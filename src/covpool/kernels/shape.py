"""Tile sizes, padding and the number of warps and pipeline stages: pure functions of shape and precision."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tiling:
    """How a matrix of a given order is cut.

    Attributes:
        tile: order of a tile.
        inner: how much of the inner dimension is multiplied at a time.
        warps: warps per program.
        stages: depth of the load pipeline of a plain product.
        pair_stages: the same for a product with its derivative, which loads twice as much.
    """

    tile: int
    inner: int
    warps: int
    stages: int
    pair_stages: int


def tiling(order: int, parts: int) -> Tiling:
    """Tiles of 64 up to order 64, of 128 above; half of the inner step where operands have two parts."""
    inner = 64 // parts
    if order <= 64:
        return Tiling(64, inner, 4, 3, 3)
    return Tiling(128, inner, 8, 4, 3)


def padded(size: int, multiple: int) -> int:
    """The smallest multiple that holds size.

    >>> padded(196, 64)
    256
    """
    return -(-size // multiple) * multiple


def stays_on_chip(order: int, parts: int) -> bool:
    """Whether a program can keep all iterates of a matrix: one tile, of one part."""
    return parts == 1 and order <= tiling(order, parts).tile


def one_program_per_matrix(batch: int) -> bool:
    """Whether there are enough matrices to give each to one multiprocessor; else every step is spread over tiles."""
    return batch >= 64
