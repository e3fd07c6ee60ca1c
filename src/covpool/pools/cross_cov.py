"""Cross-covariance pooling of two streams."""

from torch import Tensor

from covpool.ops import cross_covariance
from covpool.pools.base import Pool, register


@register("cross_cov", title="Cross-covariance pooling", order="2")
class CrossCovariancePool(Pool):
    """All entries of the covariance between the channels of two feature tensors over their positions.

    Formula: z = vec(mean of (x_A - mean)(x_B - mean)^T)
    Reference: Xie et al., SoT: Delving Deeper into Classification Head for Transformer, 2021
    Size: c^2
    Cost: n c^2

    One feature tensor gives its own covariance, both triangles. A second map is resized to the grid of the first.

    >>> import torch
    >>> CrossCovariancePool((4, 3))(torch.randn(2, 4, 14, 14), torch.randn(2, 3, 7, 7)).shape
    torch.Size([2, 12])
    """

    def pooled_size(self, a: int, b: int | None = None) -> int:
        return a * (b or a)

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c**2

    def _pool(self, x: Tensor, y: Tensor | None = None, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        return cross_covariance(x, x if y is None else y, mask=mask, weights=weights).flatten(1)
