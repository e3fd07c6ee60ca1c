"""Multi-headed cross-covariance pooling with singular value power normalization (SoT)."""

from typing import Literal

import torch
from torch import Tensor, nn

from covpool.ops import cross_covariance, powm_power_iteration, powm_svd, product
from covpool.ops.positions import keep_positions, mean
from covpool.ops.powm_power_iteration import check_options
from covpool.pools.base import Pool, PositiveInt, register

Centering = Literal["channel", "released"]


@register("svpn", title="SoT head (MGCrP, svPN)", order="2")
class SingularPowerPool(Pool):
    """The cross-covariance of two linear maps of the features per head, with singular values raised to a power.

    Formula: z = the heads' U S^alpha V^T of cov(W_h x, V_h x) = U S V^T
    Reference: Xie et al., SoT: Delving Deeper into Classification Head for Transformer, 2021
    Size: heads head_features^2, 3456 by default
    Cost: 2 n c heads head_features + n heads head_features^2

    Args:
        heads, head_features: Number of heads and width of each; by default those of SoT-Small.
        alpha: Power, in (0, 1].
        rank: Number of leading singular values that are raised to the power; 1 as published. Power iteration from a
            learned vector finds them, and the rest is divided by one factor. None raises all of them exactly, by
            decomposition.
        iterations: Number of power iterations.
        centering: "channel" subtracts the mean of every channel; "released" subtracts one mean of all channels of a
            head, as the released code does.

    >>> import torch
    >>> SingularPowerPool(64, heads=4, head_features=8)(torch.randn(2, 64, 7, 7)).shape
    torch.Size([2, 256])
    """

    heads: PositiveInt = 6
    head_features: PositiveInt = 24
    alpha: float = 0.5
    rank: int | None = 1
    iterations: int = 1
    centering: Centering = "channel"

    def pooled_size(self, c: int) -> int:
        return self.heads * self.head_features**2

    def _build(self) -> None:
        check_options(self.alpha, 1 if self.rank is None else self.rank, self.iterations)
        self.weight = nn.Parameter(torch.empty(2 * self.heads * self.head_features, *self.channels))
        nn.init.trunc_normal_(self.weight, std=0.02)  # as for all linear maps of SoT
        self.start = None if self.rank is None else nn.Parameter(torch.randn(self.head_features))

    def multiply_adds(self, n: int, c: int) -> float:
        return 2 * n * c * self.heads * self.head_features + n * self.heads * self.head_features**2

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        x, w = keep_positions(x, mask, weights)
        w = None if w is None else w.unsqueeze(1).expand(-1, self.heads, -1)
        y = product(x.flatten(0, 1), self.weight.mT).unflatten(0, x.shape[:2])  # (b, n, 2 h d)
        left, right = y.unflatten(-1, (2, self.heads, self.head_features)).permute(2, 0, 3, 1, 4)  # (b, h, n, d) each
        if self.centering == "released":
            left, right = left - _mean_of_all(left, w), right - _mean_of_all(right, w)
        a = cross_covariance(left, right, weights=w, centered=self.centering == "channel")
        return self._normalized(a).flatten(1)

    def _normalized(self, a: Tensor) -> Tensor:  # (b, h, d, d) -> (b, h, d, d)
        if self.rank is None or self.start is None:
            return powm_svd(a, self.alpha)
        return powm_power_iteration(a, self.start, alpha=self.alpha, rank=self.rank, iterations=self.iterations)


def _mean_of_all(
    stream: Tensor,  # (b, h, n, d)
    w: Tensor | None,  # (b, h, n)
) -> Tensor:  # (b, h, 1, 1)
    """Return the mean over positions and channels together."""
    return mean(stream.mean(-1, keepdim=True), w).unsqueeze(-2)
