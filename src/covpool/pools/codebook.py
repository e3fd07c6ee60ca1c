"""What pools with a codebook of visual words share: how they start from descriptors, and how they weigh positions."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from covpool._check import check_positive_int
from covpool._check_tensors import check_floating
from covpool._errors import CovpoolError
from covpool.pools.base import Pool
from covpool.pools.descriptors import check_descriptors

# What the second-best word of a typical descriptor gets, as a part of what the best one gets: NetVLAD's choice.
SECOND_SHARE = 0.01


class CodebookPool(Pool):
    """A pool whose parameters describe visual words, best started from descriptors of the data.

    `pool.init_from(pool.descriptors(features))` does it for one batch of features.

    Args:
        in_features: channels of the features.
        clusters: the number of words.
        word_size: the length of one word's part of what `_pool` returns, as a function of the channels it gets.
        common: the options of `Pool`.
    """

    def __init__(self, in_features: int, clusters: int, word_size: Callable[[int], int], **common: Any) -> None:
        check_positive_int("clusters", clusters)
        super().__init__(in_features, lambda c: clusters * word_size(c), **common)
        self.clusters = clusters

    def init_from(self, descriptors: Tensor, *, seed: int = 0) -> None:
        """Start the words from descriptors (m, c), positions of many images as `descriptors` gives them.

        Needs torch alone. The keyword of each method for statistics fitted elsewhere stands in its own docstring.
        """
        raise NotImplementedError

    def _checked(self, descriptors: Tensor) -> Tensor:  # (m, c) -> (m, c), float64
        """Descriptors that can be fitted; raises on others."""
        check_descriptors(descriptors, self.channels[0], least=self.clusters)
        return descriptors.detach().double()

    def _checked_centers(self, centers: Tensor) -> Tensor:  # (k, c) -> (k, c), float64
        """Centres of words that were found elsewhere."""
        check_statistics("centers", centers, (self.clusters, self.channels[0]))
        return centers.detach().double()


def check_statistics(name: str, value: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse fitted statistics of another shape than the pool's words have."""
    check_floating(name, value)
    if tuple(value.shape) != shape:
        raise CovpoolError(f"`{name}` must have shape {shape}; got {tuple(value.shape)}")


def sharpness(scores: Tensor) -> float:  # (m, k)
    """alpha = -log(0.01) / mean gap: exp(alpha (second - best score)) is then 0.01 at the mean gap of the descriptors.

    Reference: Relja/netvlad.
    """
    if scores.shape[1] == 1:
        return 1.0
    best, second = scores.topk(2).values.unbind(-1)
    gap = float((best - second).mean())
    if gap <= 1e-12 * float(second.abs().max()):  # round-off of float64
        raise CovpoolError("no descriptor is nearer to one word than to another: give more and more varied descriptors")
    return -math.log(SECOND_SHARE) / gap


def amounts(w: Tensor | None) -> Tensor | None:  # (b, n) -> (b, n)
    """Weights of positions that sum to one, scaled to add up to the number of positions they amount to, 1 / sum w^2.

    Kept positions then count one each, as they do without a mask, and the scale of the weights does not matter.
    """
    if w is None:
        return None
    squares = (w * w).sum(-1, keepdim=True)
    return w / torch.where(squares == 0, 1, squares)
