"""From the name of a pool to a pool on frozen features."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from covpool._errors import CovpoolError
from covpool.models import make_head
from covpool.pools import Layout, Pool
from covpool.studies._pool_labels import pca_options, split_label


@dataclass(frozen=True)
class PoolSpec:
    """How to build a pool, and a classifier on it, for the features of a backbone.

    Attributes:
        name: Name of the pool.
        options: Its options, with `reduce_to` and `reduce_kind`, in the arguments of `covpool.attach`.
        channels: Channels of the features.
        layout: Layout of the features.
        classes: Number of classes.
    """

    name: str
    options: dict[str, Any]
    channels: int
    layout: Layout
    classes: int

    @staticmethod
    def read(label: str, channels: int, layout: Layout, classes: int, *, width: int) -> "PoolSpec":
        """Read a pool written NAME or NAME:option=value:... Its reduction is a PCA, see `pca_options`.

        >>> PoolSpec.read("isqrt:iterations=3", 1280, "channels_first", 10, width=256).options
        {'reduce_to': 256, 'reduce_kind': 'linear', 'iterations': 3}
        """
        name, options = split_label(label, "pool")
        return PoolSpec(name, {**pca_options(name, channels, width), **options}, channels, layout, classes)

    def make(self, *, seed: int | None = None) -> tuple[Pool, nn.Module]:
        """Build the pool and the classifier on the CPU.

        Args:
            seed: Seed of their weights, which leaves torch's random state as it was; None uses that state.
        """
        if seed is not None:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed)
                return self.make()
        options = {"reduce_to": None, "layout": self.layout, **self.options}
        try:
            return make_head(self.name, (self.channels,), self.classes, **options)
        except (TypeError, ValueError) as error:
            raise CovpoolError(f"the pool {self.name} cannot be built: {error}") from error
