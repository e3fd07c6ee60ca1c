"""Plain covariance pooling."""

from typing import Any

from torch import Tensor

from covpool._registry import register
from covpool.ops import covariance, vech
from covpool.pools.base import Pool
from covpool.pools.triangle import triangle


@register(
    "cov",
    title="Plain covariance pooling",
    paper="Wang et al., Deep CNNs Meet Global Covariance Pooling, TPAMI 2020",
    order="2",
    formula="z = vech(Sigma)",
    size="c (c + 1) / 2",
    cost="n c^2",
)
class CovariancePool(Pool):
    """The upper triangle of the covariance of the features over positions, without any normalisation."""

    def __init__(self, in_features: int, **common: Any) -> None:
        super().__init__(in_features, triangle, **common)

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        return vech(covariance(x, mask=mask, weights=weights))
