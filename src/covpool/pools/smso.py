"""Statistically motivated second-order pooling (SMSO)."""

import torch
from torch import Tensor, nn

from covpool.ops import product, signed_power
from covpool.ops.positions import center, count, keep_positions, mean, zero_if_empty
from covpool.pools._reduction import masked_batch_norm
from covpool.pools.base import Pool, PositiveInt, register

# As published for VGG-16: the standard deviation of W, and the bias of the variant that is not centered.
WEIGHT_STD = 0.01
BIAS = 0.1


@register("smso", title="SMSO", order="2")
class StatisticalPool(Pool):
    """Square roots of the variances of the features along p learned directions, normalized over the batch.

    Formula: z = BN(sqrt(2 diag(W^T Sigma W)))
    Reference: Yu and Salzmann, Statistically-motivated Second-order Pooling, ECCV 2018
    Size: p, 2048 by default
    Cost: n c p

    diag(W^T Sigma W) is the variance of W^T x over positions, so no covariance matrix is formed. For Gaussian features
    it follows a chi-squared distribution, and the square root of its double is nearly normal with variance one.

    Args:
        p: Number of directions, which is the length of the result.
        centered: False is the variant in the authors' network: mean squares of W^T x + bias. The mean is not
            subtracted because the batch norm of the features brings it near zero.

    >>> import torch
    >>> StatisticalPool(16)(torch.randn(2, 16, 7, 7)).shape
    torch.Size([2, 2048])
    """

    p: PositiveInt = 2048
    centered: bool = True

    def pooled_size(self, c: int) -> int:
        return self.p

    def _build(self) -> None:
        p, (c,) = self.p, self.channels
        self.feature_norm = nn.BatchNorm1d(c)
        self.weight = nn.Parameter(torch.randn(c, p) * WEIGHT_STD)
        self.bias = None if self.centered else nn.Parameter(torch.full((p,), BIAS))
        self.norm = nn.BatchNorm1d(p)

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c * self.p

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        x, w = keep_positions(x, mask, weights)
        y = signed_power(2 * self._variances(self._normalized(x, mask), w))
        return zero_if_empty(self.norm(y), w)

    def _normalized(
        self,
        x: Tensor,  # (b, n, c)
        mask: Tensor | None,  # (b, n)
    ) -> Tensor:  # (b, n, c)
        """Apply the batch norm of the features, with statistics over the kept positions only."""
        if mask is not None and self.feature_norm.training:
            return masked_batch_norm(x.mT.unsqueeze(-1), mask, self.feature_norm).squeeze(-1).mT
        normalized: Tensor = self.feature_norm(x.flatten(0, 1))
        return normalized.unflatten(0, x.shape[:2])

    def _variances(
        self,
        x: Tensor,  # (b, n, c)
        w: Tensor | None,  # (b, n)
    ) -> Tensor:  # (b, p)
        """Return diag(W^T Sigma W) of the unbiased covariance, or the mean squares of W^T x + bias."""
        x = center(x, w, self.centered)
        projected = product(x.flatten(0, 1), self.weight).unflatten(0, x.shape[:2])
        if self.bias is not None:
            return mean((projected + self.bias) ** 2, w)
        n = count(x, w).unsqueeze(-1)
        return mean(projected**2, w) * (n / (n - 1).clamp(min=1))
