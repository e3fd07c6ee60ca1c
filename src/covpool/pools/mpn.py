"""Matrix power normalised covariance pooling by eigen-decomposition (MPN-COV)."""

from typing import Any

import torch
from torch import Tensor, nn

from covpool._registry import register
from covpool.ops import powm_covariance, vech
from covpool.ops.powm_eigh import Normalization, NullGradient, Threshold, check_options
from covpool.pools.base import Pool
from covpool.pools.triangle import triangle


@register(
    "mpn",
    title="MPN-COV",
    paper="Li et al., Is Second-order Information Helpful for Large-scale Visual Recognition?, ICCV 2017",
    order="2",
    formula="z = vech(Sigma^alpha)",
    size="c (c + 1) / 2",
    cost="n c^2 + about 10 c^3 (eigen-decomposition)",
)
class MatrixPowerPool(Pool):
    """The upper triangle of a power of the covariance, exact for any alpha.

    Args:
        alpha: the power, in (0, 2]; the paper's best is 1/2.
        learn_alpha: train it.
        normalization: divide by the largest eigenvalue ("spectral", M-l2) or the Frobenius norm ("frobenius", M-Fro).
        eps, null_gradient: see `covpool.ops.powm_eigh`.
    """

    def __init__(
        self,
        in_features: int,
        *,
        alpha: float = 0.5,
        learn_alpha: bool = False,
        normalization: Normalization | None = None,
        eps: Threshold | float = "rank",
        null_gradient: NullGradient = "exact",
        **common: Any,
    ) -> None:
        super().__init__(in_features, triangle, **common)
        check_options(eps, normalization, null_gradient)
        if not 0 < alpha <= 2:
            raise ValueError(f"`alpha` must be in (0, 2]; got {alpha}")
        self.alpha = nn.Parameter(torch.tensor(float(alpha))) if learn_alpha else float(alpha)
        self.options: dict[str, Any] = {"normalization": normalization, "eps": eps, "null_gradient": null_gradient}

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        return vech(powm_covariance(x, self.alpha, mask=mask, weights=weights, **self.options))
