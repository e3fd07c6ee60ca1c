"""The base of pools that are themselves the classifier."""

from torch import Tensor

from covpool.pools.base import Pool, PositiveInt


class ScorePool(Pool):
    """A pool that returns class scores. They are computed from `_represent(x, *, mask, weights)`, which suits an SVM.

    Args:
        num_classes: Number of scores per image.
    """

    output = "scores"

    num_classes: PositiveInt = 1000

    def pooled_size(self, c: int) -> int:
        return self.num_classes

    def representation(self, *features: Tensor, mask: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """Return the features as moments, one vector per image; arguments as in `forward`."""
        return self._apply_method(self._represent, features, mask, weights)

    def _represent(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        """Return the moments of the features, (b, d)."""
        raise NotImplementedError
