"""Bilinear pooling (B-CNN)."""

from torch import Tensor

from covpool.ops import covariance, cross_covariance, elementwise_power_normalize
from covpool.ops.signed_power import GradientMode
from covpool.pools.base import Pool, register


@register("bcnn", title="B-CNN", order="2")
class BilinearPool(Pool):
    """All entries of the mean outer product of the features; then the signed square root of each and unit length.

    Formula: z = E-PN(vec(mean of x_A x_B^T))
    Reference: Lin et al., Bilinear CNN Models for Fine-grained Visual Recognition, ICCV 2015
    Size: c^2
    Cost: n c^2

    One feature tensor gives the second moment about zero (x_A = x_B). Two give their cross-moment (two-stream B-CNN);
    the second map is resized to the grid of the first. Pre-training needs `normalize="bn"` after it, according to the
    paper.

    Args:
        gradient: How the slope of the signed square root stays finite at zero, see `covpool.ops.signed_power`.

    >>> import torch
    >>> z = BilinearPool(4)(torch.randn(2, 4, 7, 7))
    >>> z.shape, torch.allclose(z.norm(dim=1), torch.ones(2))
    (torch.Size([2, 16]), True)
    """

    gradient: GradientMode = "bcnn"

    def pooled_size(self, a: int, b: int | None = None) -> int:
        return a * (b or a)

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c**2

    def _pool(self, x: Tensor, y: Tensor | None = None, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        if y is None:
            z = covariance(x, mask=mask, weights=weights, centered=False)
        else:
            z = cross_covariance(x, y, mask=mask, weights=weights, centered=False)
        return elementwise_power_normalize(z.flatten(1), gradient=self.gradient)
