"""The length of the upper triangle of a square matrix, the representation size of most second-order pools."""


def triangle(order: int) -> int:
    """order (order + 1) / 2.

    >>> triangle(256)
    32896
    """
    return order * (order + 1) // 2
