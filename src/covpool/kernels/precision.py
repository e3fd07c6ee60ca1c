"""How operands are stored and multiplied: the modes of the kernels.

All modes keep operands in 16 bits and accumulate in float32. The iterates of Newton-Schulz are bounded (|Y| <= 1,
|P| <= 1.5^N), so exact powers of two keep them in the range of fp16, whose 10 bits of mantissa are those of TF32, at
half of the bytes and twice the rate of TF32. A second fp16 for the remainder gives float32 accuracy in three products.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch

Precision = Literal["float32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bf16")

MOST_ITERATIONS = 7  # stored iterates are not quite symmetric, for rounding, and eight times less so with each one
LARGEST_HALF = 3e4  # half of fp16's largest number, for the sum of two bounded terms


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


def takes(iterations: int) -> bool:
    """Whether the kernels take N iterations.

    >>> [takes(n) for n in (2, 3, 7, 8)]
    [False, True, True, False]
    """
    return 3 <= iterations <= MOST_ITERATIONS


def mode(precision: str, iterations: int) -> Mode:
    """The mode of a `Precision` for N iterations."""
    if not takes(iterations):
        raise ValueError(f"the kernels take 3 to {MOST_ITERATIONS} iterations; got {iterations}")
    room = min(16.0, LARGEST_HALF / slope_bound(iterations))
    scale = 2.0 ** math.floor(math.log2(room))
    storage = torch.bfloat16 if precision == "bf16" else torch.float16
    return Mode(storage, 2 if precision == "float32" else 1, 64.0, 256.0, scale)
