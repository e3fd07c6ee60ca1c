"""Compact bilinear pooling (CBP)."""

import math
from typing import Literal

from torch import Tensor, nn

from covpool.ops import draw_sketch, elementwise_power_normalize, projection_product, tensor_sketch
from covpool.ops.signed_power import GradientMode
from covpool.ops.tensor_sketch import draw_signs
from covpool.pools._sketches import refuse_other_buckets
from covpool.pools.base import Pool, PositiveInt, register

Sketch = Literal["tensor", "maclaurin"]


@register("cbp", title="CBP", order="2")
class CompactBilinearPool(Pool):
    """A random sketch of the mean outer product, then the signed square root of every element and unit length.

    Formula: z = E-PN(mean of sketch(x)), <sketch(x), sketch(y)> about <x, y>^2
    Reference: Gao et al., Compact Bilinear Pooling, CVPR 2016
    Size: D, 8192 by default
    Cost: min((n + 1) c^2, 2.5 n size log(2 size))

    The random numbers are drawn once, from a separate generator, and saved with the weights.

    Args:
        sketch: "tensor" (convolved count sketches) or "maclaurin" (products of two random projections).
        size: Length D of the sketch.
        learned: Train the signs of the count sketches, or the projections, from their random start.
        seed: Seed of the random numbers.
        gradient: How the slope of the signed square root stays finite at zero, see `covpool.ops.signed_power`.

    >>> import torch
    >>> z = CompactBilinearPool(64, size=512)(torch.randn(2, 64, 7, 7))
    >>> z.shape, torch.allclose(z.norm(dim=1), torch.ones(2))
    (torch.Size([2, 512]), True)
    """

    sketch: Sketch = "tensor"
    size: PositiveInt = 8192
    learned: bool = False
    seed: int = 1
    gradient: GradientMode = "cbp"

    def pooled_size(self, c: int) -> int:
        return self.size

    def _build(self) -> None:
        (c,), hold = self.channels, nn.Parameter if self.learned else nn.Buffer
        if self.sketch == "tensor":
            hashes, signs = draw_sketch(2, c, self.size, seed=self.seed)
            self.hashes, self.signs = nn.Buffer(hashes), hold(signs)  # (2, c) each
            self.register_load_state_dict_pre_hook(refuse_other_buckets)
        else:
            self.factors = hold(draw_signs(2, c, self.size, seed=self.seed))  # (2, c, D)

    def multiply_adds(self, n: int, c: int) -> float:
        return min((n + 1) * c**2, 2.5 * n * self.size * math.log2(2 * self.size))

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        if self.sketch == "tensor":
            z = tensor_sketch(x, self.hashes, self.signs, self.size, mask=mask, weights=weights)
        else:
            z = projection_product(x, self.factors, mask=mask, weights=weights) / math.sqrt(self.size)
        return elementwise_power_normalize(z, gradient=self.gradient)
