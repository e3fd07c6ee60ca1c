"""Global average pooling."""

from torch import Tensor

from covpool.ops.positions import keep_positions
from covpool.pools.base import Pool, register


@register("avg", title="Global average pooling", order="1")
class AveragePool(Pool):
    """The mean of the features over positions, the first-order baseline.

    Formula: z = mean of x over positions
    Reference: Lin et al., Network in Network, ICLR 2014
    Size: c
    Cost: n c

    >>> import torch
    >>> AveragePool(3)(torch.ones(2, 3, 4, 4)).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        x, w = keep_positions(x, mask, weights)
        return x.mean(-2) if w is None else (w.unsqueeze(-2) @ x).squeeze(-2)
