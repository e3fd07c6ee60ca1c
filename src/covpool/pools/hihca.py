"""Higher-order integration of hierarchical convolutional activations (HIHCA)."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool.ops import elementwise_power_normalize, projection_product
from covpool.ops.positions import keep_positions, mean
from covpool.pools._grid import Positions, for_each
from covpool.pools.base import Pool, PositiveInt, register

Fusion = Literal["hc", "hed"]

OTHER_SCALE = 0.5  # published initial scale of every level except the last, which starts at one


@register("hihca", title="HIHCA", order="r, 2 by default")
class HigherOrderIntegrationPool(Pool):
    """Polynomials of the features of one or more levels, with learned factors of rank one, then E-PN.

    Formula: z = E-PN(mean of (U_1^T x) o ... o (U_r^T x))
    Reference: Cai et al., Higher-order Integration of Hierarchical Convolutional Activations, ICCV 2017
    Size: size, 8192 by default
    Cost: min(c^2 (n + size), degree n c size)

    Args:
        in_features: Number of channels of the features, or of the features of each level.
        degree: Degree r of the polynomials. Degree one is the mean of the features, without factors.
        homogeneous: Use degree r only; otherwise concatenate the degrees 1 to r.
        size: Number D of polynomials of each degree above one.
        fusion: How levels are combined. "hc" concatenates their channels (hypercolumns) before the polynomials; "hed"
            applies separate polynomials to each level and concatenates the results.
        scales: Initial values of the trained factor of each level; by default 1 for the last and 0.5 for the others. A
            single level has none.

    >>> import torch
    >>> HigherOrderIntegrationPool((8, 16), size=64)(torch.randn(2, 8, 14, 14), torch.randn(2, 16, 7, 7)).shape
    torch.Size([2, 64])
    """

    degree: PositiveInt = 2
    homogeneous: bool = True
    size: PositiveInt = 8192
    fusion: Fusion = "hc"

    def __init__(
        self, in_features: int | tuple[int, ...], *, scales: Sequence[float] | None = None, **options: Any
    ) -> None:
        super().__init__(in_features, **options)
        self.own_positions = self.fusion == "hed"
        self.factors = nn.ParameterList(
            _rademacher(d, c, self.size) for c in self._widths(self.channels) for d in self.degrees if d > 1
        )
        self.scales = _make_scales(scales, len(self.channels))

    @property
    def degrees(self) -> tuple[int, ...]:
        """The degrees of the polynomials."""
        return (self.degree,) if self.homogeneous else tuple(range(1, self.degree + 1))

    def pooled_size(self, *channels: int) -> int:
        return sum(self.size if d > 1 else c for c in self._widths(channels) for d in self.degrees)

    def _widths(self, channels: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of channels of each set of polynomials."""
        return (sum(channels),) if self.fusion == "hc" else channels

    def multiply_adds(self, n: int, c: int) -> float:
        return min(c**2 * (n + self.size), self.degree * n * c * self.size)

    def _pool(self, *x: Tensor, mask: Positions, weights: Positions) -> Tensor:
        masks, each_weights = for_each(mask, x), for_each(weights, x)
        if self.scales is not None:
            x = tuple(_kept(f, m) * scale for f, m, scale in zip(x, masks, self.scales, strict=True))
        if self.fusion == "hc":
            x, masks, each_weights = (torch.cat(x, -1),), masks[:1], each_weights[:1]
        factors = iter(self.factors)
        z = [
            mean(*keep_positions(f, m, w)) if d == 1 else projection_product(f, next(factors), mask=m, weights=w)
            for f, m, w in zip(x, masks, each_weights, strict=True)
            for d in self.degrees
        ]
        return elementwise_power_normalize(torch.cat(z, -1))


def _kept(x: Tensor, mask: Tensor | None) -> Tensor:
    """Set masked positions to zero, so that their values do not enter the gradient of a scale."""
    return x if mask is None else torch.where(mask.unsqueeze(-1), x, 0)


def _rademacher(degree: int, channels: int, size: int) -> nn.Parameter:
    """Return factors (r, c, D) of random signs divided by sqrt(D)."""
    return nn.Parameter((torch.randint(2, (degree, channels, size)) * 2.0 - 1) / math.sqrt(size))


def _make_scales(scales: Sequence[float] | None, levels: int) -> nn.Parameter | None:
    if scales is not None and (levels == 1 or len(scales) != levels):
        raise CovpoolError(f"`scales` needs two levels or more and one number for each; got {len(scales)} for {levels}")
    if levels == 1:
        return None
    values = [OTHER_SCALE] * (levels - 1) + [1.0] if scales is None else [float(scale) for scale in scales]
    return nn.Parameter(torch.tensor(values))
