"""Brownian distance covariance pooling (DeepBDC)."""

import math

import torch
from torch import Tensor, nn

from covpool.ops import covariance, vech
from covpool.pools._triangle import TrianglePool
from covpool.pools.base import register

EPS = 1e-5  # under the root, in the unit of the scaled squared distances, as released: keeps its slope finite at zero


@register("bdc", title="DeepBDC", order="2")
class BrownianDistancePool(TrianglePool):
    """The upper triangle of the double-centered matrix of distances between channels.

    Formula: z = vech(double centering of sqrt(exp(t) |x_k - x_l|^2 / n + 1e-5))
    Reference: Xie et al., Joint Distribution Matters: Deep Brownian Distance Covariance, CVPR 2022
    Size: c (c + 1) / 2
    Cost: n c^2

    The distance between two channels is the Euclidean distance of their values over all n positions, divided by sqrt(n)
    and scaled by a learned temperature t.

    >>> BrownianDistancePool(64)(torch.randn(2, 64, 7, 7)).shape
    torch.Size([2, 2080])
    """

    def _build(self) -> None:
        self.temperature = nn.Parameter(torch.tensor(math.log(0.5)))

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        x = x - x.mean(-1, keepdim=True)  # changes no distance, and less cancels in the next step
        moment = covariance(x, mask=mask, weights=weights, centered=False)
        norms = moment.diagonal(dim1=-2, dim2=-1)
        squares = self.temperature.exp() * (norms.unsqueeze(-1) + norms.unsqueeze(-2) - 2 * moment).clamp(min=0)
        # sqrt(squares + eps) up to the constant sqrt(eps), which centering removes: zero maps give exact zeros.
        a = squares / ((squares + EPS).sqrt() + EPS**0.5)
        rows = a.mean(-1, keepdim=True)
        return vech(a - rows - rows.mT + rows.mean(-2, keepdim=True))
