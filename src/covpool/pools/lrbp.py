"""Low-rank bilinear pooling (LRBP): a bilinear classifier without an explicit feature."""

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool.ops import covariance, product, signed_power
from covpool.pools._descriptors import check_descriptors
from covpool.pools._scores import ScorePool
from covpool.pools.base import PositiveInt, register

VGG_SCALE = 20000 / 784  # the released code divides by 20000 a sum over the 28 x 28 positions of VGG-16 at 448 pixels
FACTOR_STD = 0.01


@register("lrbp", title="LRBP", order="2")
class LowRankBilinearPool(ScorePool):
    """Class scores: a quadratic form of low rank per class in the second moment of projected features.

    Formula: s_k = |U_k+^T X'|^2 - |U_k-^T X'|^2 + b_k, X' = P^T X
    Reference: Kong and Fowlkes, Low-rank Bilinear Pooling for Fine-Grained Classification, CVPR 2017
    Size: one score per class, no explicit feature
    Cost: n c bottleneck + (n + num_classes) bottleneck^2

    The pool is the classifier: `output` is "scores". `representation` returns the second moment itself, for an SVM.

    Args:
        num_classes: Number of scores per image.
        bottleneck: Number m of channels after the projection P.
        rank: Rank r of the quadratic form of a class: even, half of it positive and half negative.
        sqrt_scale: Features become sign(x) sqrt(|x| / sqrt_scale) first; None leaves them unchanged.

    >>> import torch
    >>> pool = LowRankBilinearPool(64, num_classes=5, bottleneck=10)
    >>> x = torch.randn(2, 64, 7, 7)
    >>> pool(x).shape, pool.representation(x).shape
    (torch.Size([2, 5]), torch.Size([2, 100]))
    """

    bottleneck: PositiveInt = 100
    rank: PositiveInt = 8
    sqrt_scale: float | None = VGG_SCALE

    def _build(self) -> None:
        if self.rank % 2:
            raise CovpoolError(f"`rank` must be even, half positive and half negative; got {self.rank}")
        if self.sqrt_scale is not None and not self.sqrt_scale > 0:
            raise CovpoolError(f"`sqrt_scale` must be positive, or None for unchanged features; got {self.sqrt_scale}")
        self.projection = nn.Linear(self.channels[0], self.bottleneck)
        nn.init.orthogonal_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)
        self.factors = nn.Parameter(torch.randn(self.num_classes, self.bottleneck, self.rank) * FACTOR_STD)
        self.bias = nn.Parameter(torch.zeros(self.num_classes))

    @torch.no_grad()
    def init_from(
        self,
        descriptors: Tensor,  # (k, c), after the reduction
    ) -> None:
        """Set P to the leading singular vectors of descriptors of the training images, and its bias to zero."""
        (channels,) = self.channels
        check_descriptors(descriptors, channels)
        if self.bottleneck > channels:
            raise CovpoolError(
                f"`bottleneck` must be at most the number of channels, {channels}; got {self.bottleneck}"
            )
        moment = covariance(self._rooted(descriptors.double()), centered=False)
        _, vectors = torch.linalg.eigh(moment)  # ascending
        self.projection.weight.copy_(vectors[:, -self.bottleneck :].mT.flip(0))
        self.projection.bias.zero_()

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c * self.bottleneck + (n + self.num_classes) * self.bottleneck**2

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        moment = self._represent(x, mask=mask, weights=weights)
        factors = self.factors.to(moment.dtype)
        positive, negative = factors.chunk(2, -1)
        # the forms are computed once per batch: a class then costs m^2 products per image instead of n m r
        forms = product(torch.cat((positive, -negative), -1), factors.mT).flatten(1)
        return product(moment, forms.mT) + self.bias.to(moment.dtype)

    def _represent(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        """Return all second moments of the projected features, (b, bottleneck^2)."""
        if mask is not None:
            x = torch.where(mask.unsqueeze(-1), x, 0)
        weight, bias = (p.to(x.dtype) for p in (self.projection.weight, self.projection.bias))
        projected = product(self._rooted(x).flatten(0, 1), weight.mT).unflatten(0, x.shape[:2]) + bias
        return covariance(projected, mask=mask, weights=weights, centered=False).flatten(1)

    def _rooted(self, x: Tensor) -> Tensor:
        return x if self.sqrt_scale is None else signed_power(x / self.sqrt_scale, gradient="cbp")
