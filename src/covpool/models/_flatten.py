"""The first-order pool of AlexNet and VGG: all positions of a small grid as one vector."""

from torch import Tensor

from covpool._errors import CovpoolError
from covpool.pools import Pool, PositiveInt


class FlattenPool(Pool):
    """The features of all positions as one vector, channel by channel, as the first FC layer of AlexNet takes them.

    It is not registered as a pool because it depends on the order and number of positions.

    Args:
        in_features: Channels c.
        positions: Positions n of the grid.

    Shape: (b, c, h, w) with h w = n -> (b, c n).

    >>> import torch
    >>> FlattenPool(2, positions=4)(torch.arange(8.0).view(1, 2, 2, 2)).tolist()
    [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]]
    """

    positions: PositiveInt = 1

    def pooled_size(self, c: int) -> int:
        return c * self.positions

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        if mask is not None or weights is not None:
            raise CovpoolError("FlattenPool keeps every position: it takes no mask and no weights")
        if x.shape[-2] != self.positions:
            raise CovpoolError(f"FlattenPool was built for {self.positions} positions; got {x.shape[-2]}")
        return x.mT.flatten(1)
