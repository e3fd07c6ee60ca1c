"""Polynomials of a matrix with few products (Paterson and Stockmeyer)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from covpool.ops._autograd import is_eager, needs_derivative
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
    if is_eager(a) and not needs_derivative(a, None):
        return _fused(a, coefficients, min(width + 1, length), width)
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


def _fused(a: Tensor, coefficients: Sequence[Sequence[float]], count: int, width: int) -> list[Tensor]:
    """The same without derivatives, in place, with every sum of matrices inside a product where there is one."""
    matrices = a.reshape(-1, *a.shape[-2:])
    powers = [matrices, matrices]  # the first is not used: the identity is added on the diagonal
    while len(powers) < count:
        powers.append(powers[-1] @ matrices)
    results = []
    for p in coefficients:
        starts = range(0, len(p), width)
        value, scale = _scaled_sum(powers, p[starts[-1] :])
        for start in reversed(starts[:-1]):
            total, factor = _scaled_sum(powers, p[start : start + width])
            value, scale = total.baddbmm_(value, powers[width], beta=factor, alpha=scale), 1.0
        results.append((value if scale == 1 else value.mul_(scale)).reshape(a.shape))
    return results


def _scaled_sum(powers: Sequence[Tensor], block: Sequence[float]) -> tuple[Tensor, float]:
    """A new matrix and a factor whose product is sum_i block_i a^i."""
    constant, *others = block
    if len(others) > 1 and others[0] != 0:
        factor = float(others[0])
        total = torch.add(powers[1], powers[2], alpha=others[1] / factor)
        for i, coefficient in enumerate(others[2:], 3):
            total.add_(powers[i], alpha=coefficient / factor)
    else:
        factor = 1.0
        total = powers[1] * (others[0] if others else 0)
        for i, coefficient in enumerate(others[1:], 2):
            total.add_(powers[i], alpha=coefficient)
    total.diagonal(dim1=-2, dim2=-1).add_(constant / factor)
    return total, factor
