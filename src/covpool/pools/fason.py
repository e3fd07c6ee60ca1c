"""First- and second-order information fusion (FASON)."""

import math

import torch
from torch import Tensor, nn

from covpool.ops import draw_sketch, elementwise_power_normalize, tensor_sketch
from covpool.ops.positions import keep_positions, mean
from covpool.ops.signed_power import GradientMode
from covpool.pools._grid import Positions, for_each
from covpool.pools._sketches import refuse_other_buckets
from covpool.pools.base import Pool, PositiveInt, register


@register("fason", title="FASON", order="1 + 2")
class FirstAndSecondOrderPool(Pool):
    """The mean of the features and their compact bilinear pooling, concatenated over one or more levels.

    Formula: z = [mean of x, E-PN(mean of sketch(x))], levels concatenated
    Reference: Dai et al., FASON: First and Second Order Information Fusion Network for Texture Recognition, CVPR 2017
    Size: c + size, 8192 by default, per level
    Cost: n c + min((n + 1) c^2, 2.5 n size log(2 size))

    Each level is pooled over its own positions. The sketches are drawn once, from a separate generator, and saved with
    the weights.

    Args:
        in_features: Number of channels of the features, or of the features of each level.
        size: Length of the sketch of each level.
        seed: Seed of the random numbers.
        gradient: How the slope of the signed square root stays finite at zero, see `covpool.ops.signed_power`.

    >>> import torch
    >>> FirstAndSecondOrderPool((8, 16), size=64)(torch.randn(2, 8, 14, 14), torch.randn(2, 16, 7, 7)).shape
    torch.Size([2, 152])
    """

    own_positions = True

    size: PositiveInt = 8192
    seed: int = 1
    gradient: GradientMode = "cbp"

    def pooled_size(self, *channels: int) -> int:
        return sum(c + self.size for c in channels)

    def _build(self) -> None:
        self.sketches = nn.ModuleList(_Sketch(c, self.size, self.seed + i) for i, c in enumerate(self.channels))
        self.register_load_state_dict_pre_hook(refuse_other_buckets)

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c + min((n + 1) * c**2, 2.5 * n * self.size * math.log2(2 * self.size))

    def _pool(self, *x: Tensor, mask: Positions, weights: Positions) -> Tensor:
        z = []
        for sketch, f, m, w in zip(self.sketches, x, for_each(mask, x), for_each(weights, x), strict=True):
            second = elementwise_power_normalize(sketch(f, m, w), gradient=self.gradient)
            z += [mean(*keep_positions(f, m, w)), second]
        return torch.cat(z, -1)


class _Sketch(nn.Module):
    """The tensor sketch of order two. Its buckets and signs are buffers."""

    def __init__(self, channels: int, size: int, seed: int) -> None:
        super().__init__()
        self.size = size
        hashes, signs = draw_sketch(2, channels, size, seed=seed)
        self.hashes, self.signs = nn.Buffer(hashes), nn.Buffer(signs)  # (2, c) each

    def forward(self, x: Tensor, mask: Tensor | None, weights: Tensor | None) -> Tensor:  # (b, n, c) -> (b, size)
        return tensor_sketch(x, self.hashes, self.signs, self.size, mask=mask, weights=weights)
