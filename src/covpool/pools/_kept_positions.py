"""Masks for methods that know nothing of them: the kept positions are gathered before the method is called."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def zero_vectors(x: Tensor, size: int) -> Tensor:  # (b, n, c) -> (b, size)
    """Return zeros that depend on x, with gradients of zero."""
    return x[:, :0].sum((1, 2)).unsqueeze(-1).expand(-1, size)


def pool_by_count(
    pool: Callable[..., Tensor],
    x: Sequence[Tensor],  # (b, n, c) each
    masks: Sequence[Tensor],  # (b, n) each
    size: int,
) -> Tensor:  # (b, size)
    """Gather the kept positions and pool images with the same number of them together; no position gives zeros.

    Args:
        pool: The method, from features (b, n, c), one tensor or several, to vectors (b, size).
        x: Feature tensors.
        masks: Mask of each feature tensor.
        size: Length of the vectors.
    """
    counts = torch.stack([mask.sum(1) for mask in masks], 1)  # (b, feature tensors)
    z = zero_vectors(x[0], size)
    for group in counts.unique(dim=0).tolist():
        if all(group):
            rows = (counts == counts.new_tensor(group)).all(1)
            kept = [f[rows][m[rows]].unflatten(0, (-1, n)) for f, m, n in zip(x, masks, group, strict=True)]
            part = pool(*kept)
            z = z.to(part.dtype).index_put((rows,), part)
    return z
