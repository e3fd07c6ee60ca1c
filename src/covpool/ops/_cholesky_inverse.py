"""The Cholesky factor of positive definite matrices with its inverse, block by block on a GPU.

Batched triangular solves of large order take much longer on a GPU than products. Blocks of the diagonal are factored
and inverted one after the other, and products do the rest.
"""

import torch
from torch import Tensor

BLOCK = 64


def cholesky_inverse(
    a: Tensor,  # (b, c, c), overwritten; only its lower triangle counts
) -> tuple[Tensor, Tensor, Tensor]:  # L (b, c, c), L^-1 (b, c, c), failed (b,)
    """L and L^-1 with L L^T = a, and which matrices are not positive definite; no derivative."""
    return _by_blocks(a, BLOCK) if a.is_cuda else _whole(a)


def _whole(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lower, info = torch.linalg.cholesky_ex(a)
    identity = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand_as(a)
    return lower, torch.linalg.solve_triangular(lower, identity, upper=False), info != 0


def _by_blocks(a: Tensor, block: int) -> tuple[Tensor, Tensor, Tensor]:
    c = a.shape[-1]
    lower, inverse = torch.zeros_like(a).mT, torch.zeros_like(a)  # by columns, as LAPACK stores a factor
    failed = a.new_zeros(len(a), dtype=torch.bool)
    for start in range(0, c, block):
        end = min(start + block, c)
        here, before, behind = slice(start, end), slice(0, start), slice(end, c)
        lower[:, here, here], inverse[:, here, here], fails = _whole(a[:, here, here])
        failed |= fails
        if start:  # [[A, 0], [B, C]]^-1 = [[A^-1, 0], [-C^-1 B A^-1, C^-1]]
            half = lower[:, here, before] @ inverse[:, before, before]
            inverse[:, here, before] = -(inverse[:, here, here] @ half)
        if end < c:
            panel = a[:, behind, here] @ inverse[:, here, here].mT
            lower[:, behind, here] = panel
            a[:, behind, behind].baddbmm_(panel, panel.mT, alpha=-1)
    return lower, inverse, failed
