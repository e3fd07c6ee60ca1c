"""FBN: the factorized bilinear layer at every position, with averaged scores."""

from typing import Any

import torch
from torch import Tensor

from covpool.blocks.fb import Compensation, FactorizedBilinear
from covpool.ops import covariance
from covpool.ops.positions import keep_positions, mean
from covpool.pools._scores import ScorePool
from covpool.pools.base import register


@register("fbn", title="FBN", order="2")
class FactorizedBilinearPool(ScorePool):
    """Class scores: a linear function of every position plus a quadratic form of low rank, averaged over positions.

    Formula: s_k = mean over positions of b_k + w_k^T x + |F_k x|^2
    Reference: Li et al., Factorized Bilinear Models for Image Recognition, ICCV 2017
    Size: one score per class, no explicit feature
    Cost: n c (rank + 1) num_classes

    The pool is the classifier: `output` is "scores". The scores are linear in `representation`, which suits an SVM.

    Args:
        num_classes: Number of scores per image.
        rank: Number of rows of F for each class; 20 (CIFAR) and 50 (ImageNet) as published.
        drop: Probability of dropping each of the `rank` paths in training (DropFactor).
        self_terms: False leaves the squares x_i^2 out, as the released operator does.
        compensation: How dropped paths are compensated, see `covpool.blocks.FactorizedBilinear`.

    >>> pool = FactorizedBilinearPool(64, num_classes=5, rank=4)
    >>> x = torch.randn(2, 64, 7, 7)
    >>> pool(x).shape, pool.representation(x).shape
    (torch.Size([2, 5]), torch.Size([2, 4160]))
    """

    rank: int = 20
    drop: float = 0.5
    self_terms: bool = True
    compensation: Compensation = "inverted"

    def _build(self) -> None:
        shared = ("rank", "drop", "self_terms", "compensation")
        options: dict[str, Any] = {name: getattr(self, name) for name in shared}
        self.layer = FactorizedBilinear(self.channels[0], self.num_classes, **options)

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c * (self.rank + 1) * self.num_classes

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        x, w = keep_positions(x.to(self.layer.weight.dtype), mask, weights)
        return self.layer(x.mT, w)

    def _represent(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        """Return the mean and all second moments of the features, (b, c + c^2)."""
        moment = covariance(x, mask=mask, weights=weights, centered=False)
        return torch.cat((mean(*keep_positions(x, mask, weights)), moment.flatten(1)), 1)
