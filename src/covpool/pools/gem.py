"""Generalized mean pooling."""

from typing import Any

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool.ops.positions import keep_positions
from covpool.pools.base import Pool, register

# Lower bound of the features, in the unit of x, so that the slopes of x^p and of its root stay finite.
FLOOR = 1e-6


@register("gem", title="Generalized mean pooling (GeM)", order="1")
class GeneralizedMeanPool(Pool):
    """(mean of max(x, 1e-6)^p over positions)^(1/p), between average (p = 1) and max pooling (p to infinity).

    Formula: z = (mean of max(x, 1e-6)^p)^(1/p)
    Reference: Radenovic et al., Fine-tuning CNN Image Retrieval with No Human Annotation, TPAMI 2019
    Size: c
    Cost: 2 n c

    Args:
        p: Initial power.
        learn_p: Train the power.
    """

    def __init__(self, in_features: int, *, p: float = 3.0, learn_p: bool = True, **common: Any) -> None:
        super().__init__(in_features, **common)
        if p <= 0:
            raise CovpoolError(f"`p` must be positive; got {p}")
        self.p = nn.Parameter(torch.tensor(float(p)), requires_grad=learn_p)

    def multiply_adds(self, n: int, c: int) -> float:
        return 2 * n * c

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        x, w = keep_positions(x, mask, weights)
        x = torch.where(x <= FLOOR, FLOOR, x)
        largest = x.detach().amax(-2, keepdim=True)  # factored out because x^p overflows above 1e38
        powers = (x / largest) ** self.p
        mean = powers.mean(-2) if w is None else (w.unsqueeze(-2) @ powers).squeeze(-2)
        empty = mean == 0
        return torch.where(empty, 0, largest.squeeze(-2) * torch.where(empty, 1, mean) ** (1 / self.p))
