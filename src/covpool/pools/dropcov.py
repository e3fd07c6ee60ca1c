"""Covariance pooling with adaptive channel dropout (DropCov)."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool.ops import covariance
from covpool.ops.positions import keep_positions, mean
from covpool.pools._triangle import TrianglePool
from covpool.pools.base import register

KERNEL = 3  # size of the convolution over channels, as released
STRENGTH = 10  # a cosine of one lowers the rate by this much over log2 of the channels, as released


@register("dropcov", title="DropCov", order="2")
class DropoutCovariancePool(TrianglePool):
    """The upper triangle of the covariance, trained with channel dropout at a rate that adapts to the features.

    Formula: z = vech(cov(x m / (1 - p))) with a random channel mask m in training; z = vech(Sigma) in evaluation
    Reference: Wang et al., DropCov: A Simple yet Effective Method for Improving Deep Architectures, NeurIPS 2022
    Size: c (c + 1) / 2
    Cost: n c^2

    In training, y = softmax(conv(mean x)) weighs the channels (efficient channel attention) and x becomes x (1 + y).
    Each channel of each image is then dropped with probability p, and the others are divided by 1 - p. With the mean
    over the batch of cos(y, row sums of the covariance of x), p = 1 - 10 / log2(c) mean, clipped to [0, 1]. In
    evaluation it is plain covariance pooling.

    Args:
        rate: "adaptive", or a fixed p in [0, 1) without the attention.

    >>> import torch
    >>> pool = DropoutCovariancePool(64).eval()
    >>> pool(torch.randn(2, 64, 7, 7)).shape
    torch.Size([2, 2080])
    """

    normalizes = "covariance"

    rate: float | Literal["adaptive"] = "adaptive"

    def _build(self) -> None:
        adaptive = self.rate == "adaptive"
        if not adaptive and not (isinstance(self.rate, (int, float)) and 0 <= self.rate < 1):
            raise CovpoolError(f"`rate` must be 'adaptive' or in [0, 1); got {self.rate!r}")
        self.attention = nn.Conv1d(1, 1, KERNEL, padding=KERNEL // 2, bias=False) if adaptive else None

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        if self.training:
            x, w = keep_positions(x, mask, weights)
            x = self._dropped(x, w)
        return covariance(x, mask=mask, weights=weights, vectorize=True)

    def _dropped(self, x: Tensor, w: Tensor | None) -> Tensor:
        """Drop channels of x at random."""
        if self.attention is None:
            return nn.functional.dropout1d(x.mT, float(self.rate)).mT
        y = self.attention(mean(x, w).unsqueeze(1)).softmax(-1).squeeze(1)
        x = x * (1 + y).unsqueeze(1)
        # The rate stays a tensor; nn.Dropout would need it on the host.
        p = adaptive_rate(y.detach(), covariance(x.detach(), weights=w))
        kept = torch.rand(y.shape, dtype=y.dtype, device=y.device) >= p
        scale = torch.where(p == 1, 0, 1 / torch.where(p == 1, 1, 1 - p))
        return x * (kept * scale).unsqueeze(1)


def adaptive_rate(
    y: Tensor,  # (b, c), the attention
    sigma: Tensor,  # (b, c, c)
) -> Tensor:  # ()
    """Return 1 - 10 / log2(c) mean of cos(y, row sums of sigma), clipped to [0, 1]; a zero sigma has cosine zero."""
    rows = sigma.sum(-1)
    largest = rows.abs().amax(-1, keepdim=True)
    cosine = nn.functional.cosine_similarity(y, rows / torch.where(largest == 0, 1, largest), dim=-1)
    return (1 - STRENGTH / math.log2(max(y.shape[-1], 2)) * cosine.mean()).clamp(0, 1)
