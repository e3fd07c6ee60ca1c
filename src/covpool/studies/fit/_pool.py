"""The pool of a fit: its name, its options, and the PCA before it."""

from dataclasses import dataclass
from typing import Any

from covpool._errors import CovpoolError
from covpool.models import make_head
from covpool.pools import Layout, Pool, pool_info
from covpool.studies._pool_labels import pca_options, split_label


@dataclass(frozen=True)
class PoolSpec:
    """How to build a pool, in the arguments of `covpool.attach`.

    Attributes:
        name: Name of the pool.
        options: Its options, with `reduce_to` and `reduce_kind` of the PCA.
    """

    name: str
    options: dict[str, Any]

    @staticmethod
    def read(label: str, channels: int, width: int) -> "PoolSpec":
        """Read a pool written NAME or NAME:option=value:... for features with some channels.

        A pool of second order gets a linear reduction to `width` channels, if there are more. Pools of first order get
        all channels.

        >>> PoolSpec.read("isqrt:iterations=3", 1280, 256).options
        {'reduce_to': 256, 'reduce_kind': 'linear', 'iterations': 3}
        """
        name, options = split_label(label, "pool")
        return PoolSpec(name, {**pca_options(name, channels, width), **options})

    def make(self, channels: int, layout: Layout, classes: int) -> Pool:
        """Build the pool for features of one backbone."""
        try:
            pool, _ = make_head(self.name, (channels,), classes, **{"layout": layout, **self.options})
        except (TypeError, ValueError) as error:
            raise CovpoolError(f"`pool`: {self.name} cannot be built: {error}") from error
        return pool


def check_pool(label: str) -> None:
    """Refuse a pool that is unknown, or that is its own classifier."""
    name, _ = split_label(label, "pool")
    if "num_classes" in pool_info(name).options:
        raise CovpoolError(f"`pool` must give vectors; {name!r} gives scores: choose another, or train it by a recipe")
