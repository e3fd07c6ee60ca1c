"""Polynomials of a matrix with few products (Paterson and Stockmeyer)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from covpool.ops.precision import product


def polynomials(
    a: Tensor,  # (..., c, c)
    *coefficients: Sequence[float],
) -> list[Tensor]:  # each (..., c, c)
    """sum_k p_k a^k for each list of coefficients p_0, p_1, ..., with the powers of a shared between them.

    Each polynomial is one of a^w whose coefficients are polynomials of degree below w: about 2 sqrt(degree) products.
    """
    length = max(len(p) for p in coefficients)
    width = math.isqrt(length - 1) + 1
    powers = [torch.eye(a.shape[-1], dtype=a.dtype, device=a.device), a]
    while len(powers) < min(width + 1, length):
        # a view, because torch.compile rejects a Function that gets the same tensor twice
        powers.append(product(powers[-1], a.view_as(a)))
    return [_evaluate(powers, p, width, a) for p in coefficients]


def _evaluate(powers: list[Tensor], p: Sequence[float], width: int, like: Tensor) -> Tensor:
    """Horner's rule in a^width."""
    blocks = [p[start : start + width] for start in range(0, len(p), width)]
    value = _combine(powers, blocks[-1], like)
    for block in reversed(blocks[:-1]):
        value = product(value, powers[width]) + _combine(powers, block, like)
    return value


def _combine(powers: list[Tensor], block: Sequence[float], like: Tensor) -> Tensor:
    total = (block[0] * powers[0]).expand_as(like)
    for i, factor in enumerate(block[1:], 1):  # torch 2.8 cannot compile a zip that may end early
        total = torch.add(total, powers[i], alpha=factor)
    return total
