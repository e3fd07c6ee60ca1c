"""How operands are stored and multiplied: the modes of the kernels.

All modes keep operands in 16 bits and accumulate in float32. The iterates of Newton-Schulz and their derivatives are
bounded, so exact powers of two keep them in the range of fp16, whose 10 bits of mantissa are those of TF32, at half of
the bytes and twice the rate of TF32. A second fp16 for the remainder gives float32 accuracy in three products.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch

from covpool._errors import CovpoolError

Precision = Literal["float32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bf16")

MOST_ITERATIONS = 7  # for which `iteration.coefficients` has scales; derivatives would soon leave the range of fp16
Y_SCALE = 256.0
LARGEST = 6e4  # what may be stored in fp16, whose largest number is 65504


@dataclass(frozen=True)
class Mode:
    """One precision.

    Attributes:
        storage: dtype of operands in memory.
        parts: how many numbers hold one operand: 1, or 2 for a value and its remainder.
        k_scale, y_scale: powers of two by which the scaled features K and the iterates Y are stored, so that their
            small entries are normal numbers.
        direction_scale: power of two of the direction's norm.
    """

    storage: torch.dtype
    parts: int
    k_scale: float
    y_scale: float
    direction_scale: float


def slope_bound(iterations: int) -> float:
    """The largest derivative of P_N, attained at eigenvalue 0: p' <- (3 p' - p^3) / 2 in magnitude.

    >>> slope_bound(2)
    2.4375
    """
    p, slope = 1.0, 0.0
    for _ in range(iterations):
        p, slope = 1.5 * p, (3 * slope + p**3) / 2
    return slope


def stored_slope(iterations: int) -> float:
    """The largest derivative that is stored, in a direction of norm one: of P_N, or of the last Y before the end.

    >>> stored_slope(5)
    1296.0
    """
    return max(slope_bound(iterations), Y_SCALE * 1.5 ** (2 * ((iterations - 1) // 2)))


def takes(iterations: int) -> bool:
    """Whether the kernels take N iterations.

    >>> [takes(n) for n in (2, 3, 7, 8)]
    [False, True, True, False]
    """
    return 3 <= iterations <= MOST_ITERATIONS


def mode(precision: str, iterations: int) -> Mode:
    """The mode of a `Precision` for N iterations."""
    if not takes(iterations):
        raise CovpoolError(f"the kernels take 3 to {MOST_ITERATIONS} iterations; got {iterations}")
    room = min(16.0, LARGEST / stored_slope(iterations))
    scale = 2.0 ** math.floor(math.log2(room))
    storage = torch.bfloat16 if precision == "bf16" else torch.float16
    return Mode(storage, 2 if precision == "float32" else 1, 64.0, Y_SCALE, scale)
