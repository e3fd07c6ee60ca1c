"""Multiply-adds of a network, counted in two ways: as covpool runs it, and as the paper counts."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from covpool.models._dry_run import without_memory
from covpool.models._network import Network
from covpool.models._residual import move_strides_first
from covpool.pools import Pool, pool_info, pool_name

PAPER_POOLS = ("cov", "mpn", "isqrt", "gaussian")  # the pools of the paper itself
PAPER_PRODUCTS = 6  # c x c products of the square root: N = 3 iterations, or N = 5 at half the cost by symmetry


@dataclass(frozen=True)
class Cost:
    """Multiply-adds per image.

    Attributes:
        layers: Cost of the convolutions, linear layers and attention, by torch's own counter.
        pooling: Cost of the pool's mathematics, by `Pool.multiply_adds`.
        paper: Cost of the network in the paper's accounting: the stride of a bottleneck in its first 1x1 convolution,
            centering of the covariance as a product with an n x n matrix, six c x c products for the square root.
    """

    layers: int
    pooling: int
    paper: int

    @property
    def total(self) -> int:
        """Multiply-adds of the layers and the pooling together."""
        return self.layers + self.pooling


def cost(network: Network, image: tuple[int, ...] = (3, 224, 224)) -> Cost:
    """Count the multiply-adds for one image (channels, h, w), on the meta device, without computing anything.

    Reference: "Deep CNNs Meet Global Covariance Pooling", Appendix III.

    >>> import covpool
    >>> found = cost(covpool.create_model("resnet18"))
    >>> f"{found.total / 1e9:.3f} {found.paper / 1e9:.3f}"
    '1.814 1.814'
    """
    copy = without_memory(network).eval()
    layers, n, c = _count_layers(copy, image)
    pooling = round(network.pool.multiply_adds(n, c))
    move_strides_first(copy)
    paper, n, c = _count_layers(copy, image)
    paper += _paper_pooling(network.pool, n, c)
    return Cost(layers, pooling, paper)


def _count_layers(network: Network, image: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the multiply-adds outside the pool's mathematics, and the positions and channels of the pool's input."""
    from torch.utils.flop_counter import FlopCounterMode  # imports triton, which `import covpool` must not

    pool, seen = network.pool, {}

    def only_shapes(*x: Tensor, **positions: Any) -> Tensor:
        seen["n"], seen["c"] = x[0].shape[-2:]
        return x[0].new_empty(x[0].shape[0], pool.pooled_features)

    pool._pool = only_shapes  # type: ignore[method-assign]
    parameter = next(network.parameters())
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        network(torch.empty(1, *image, dtype=parameter.dtype, device="meta"))
    return counter.get_total_flops() // 2, seen["n"], seen["c"]


def _paper_pooling(pool: Pool, n: int, c: int) -> int:
    """Return the pool's cost in the paper's accounting: first order is free, other systems have their own cost."""
    name = pool_name(pool)
    if name in PAPER_POOLS:
        return c * n**2 + c**2 * n + PAPER_PRODUCTS * c**3
    return 0 if name is None or pool_info(name).order == "1" else round(pool.multiply_adds(n, c))
