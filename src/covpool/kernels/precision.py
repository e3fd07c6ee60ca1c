"""How the kernels store and multiply operands.

All modes keep operands in 16 bits and accumulate in float32. The iterates of Newton-Schulz and their derivatives are
bounded, so exact powers of two keep them in the range of fp16. fp16 has the 10 bits of mantissa of TF32 at half the
bytes and twice the rate. A second fp16 number for the remainder gives float32 accuracy in three products.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch

from covpool._errors import CovpoolError

Precision = Literal["float32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bf16")

MOST_ITERATIONS = 7  # `iteration.coefficients` has scales up to here; beyond, derivatives soon leave the range of fp16
Y_SCALE = 256.0
LARGEST = 6e4  # largest value stored in fp16, whose maximum is 65504


@dataclass(frozen=True)
class Mode:
    """The storage of operands in one precision.

    Attributes:
        storage: Dtype of operands in memory.
        parts: Number of stored values per entry: 1, or 2 for a value and its remainder.
        k_scale, y_scale: Powers of two that multiply the scaled features K and the iterates Y in storage, so that their
            small entries are normal numbers.
        direction_scale: Norm of the stored direction, a power of two.
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
    """The largest stored derivative in a direction of norm one: that of P_N, or of the last Y before the result.

    >>> stored_slope(5)
    1296.0
    """
    return max(slope_bound(iterations), Y_SCALE * 1.5 ** (2 * ((iterations - 1) // 2)))


def takes(iterations: int) -> bool:
    """Whether the kernels support N iterations.

    >>> [takes(n) for n in (2, 3, 7, 8)]
    [False, True, True, False]
    """
    return 3 <= iterations <= MOST_ITERATIONS


def mode(precision: str, iterations: int) -> Mode:
    """The `Mode` for a `Precision` and N iterations."""
    if not takes(iterations):
        raise CovpoolError(f"the kernels support 3 to {MOST_ITERATIONS} iterations; got {iterations}")
    room = min(16.0, LARGEST / stored_slope(iterations))
    scale = 2.0 ** math.floor(math.log2(room))
    storage = torch.bfloat16 if precision == "bf16" else torch.float16
    return Mode(storage, 2 if precision == "float32" else 1, 64.0, Y_SCALE, scale)
