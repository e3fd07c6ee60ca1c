"""Global max pooling."""

import torch
from torch import Tensor

from covpool.pools.base import Pool, register


@register("max", title="Global max pooling", order="1")
class MaxPool(Pool):
    """The largest value of each channel over positions, a first-order baseline.

    Formula: z = max of x over positions
    Reference: Oquab et al., Is Object Localization for Free?, CVPR 2015
    Size: c
    Cost: n c

    Positions of weight zero are left out; other weights have no effect.
    """

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        if weights is not None:
            mask = weights != 0 if mask is None else mask & (weights != 0)
        if mask is None:
            return x.amax(-2)
        keep = mask.unsqueeze(-1)
        return torch.where(keep.any(-2), torch.where(keep, x, -torch.inf).amax(-2), 0)
