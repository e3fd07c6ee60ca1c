"""The base of pools with a codebook of visual words: initialization from descriptors, weights of positions."""

import math

import torch
from torch import Tensor

from covpool._check_tensors import check_floating
from covpool._errors import CovpoolError
from covpool.ops.kmeans import kmeans
from covpool.pools._descriptors import check_descriptors
from covpool.pools.base import Pool, PositiveInt

# Assignment of a typical descriptor to its second-best word, relative to its best word, as chosen by NetVLAD.
SECOND_SHARE = 0.01


class CodebookPool(Pool):
    """A pool whose parameters describe visual words. They are best initialized from descriptors of the data.

    `pool.init_from(pool.descriptors(features))` initializes them from one batch of features.

    Args:
        clusters: Number of words.
    """

    clusters: PositiveInt = 64

    def pooled_size(self, c: int) -> int:
        return self.clusters * c

    def init_from(self, descriptors: Tensor, *, seed: int = 0) -> None:
        """Initialize the words from descriptors (m, c) of many images, as `descriptors` returns them.

        Only torch is needed. Each method documents its keyword for statistics that were fitted elsewhere.
        """
        raise NotImplementedError

    def _checked(self, descriptors: Tensor) -> Tensor:  # (m, c) -> (m, c), float64
        """Check the descriptors and convert them to float64."""
        check_descriptors(descriptors, self.channels[0], least=self.clusters)
        return descriptors.detach().double()

    def _words(self, x: Tensor, seed: int, centers: Tensor | None) -> Tensor:  # (m, c) -> (k, c), float64
        """Return the centers of the words: those that were fitted elsewhere, or those of k-means of x."""
        if centers is None:
            return kmeans(x, self.clusters, seed=seed)
        check_statistics("centers", centers, (self.clusters, *self.channels))
        return centers.detach().to(x)


def check_statistics(name: str, value: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse fitted statistics whose shape does not match the pool's words."""
    check_floating(name, value)
    if tuple(value.shape) != shape:
        raise CovpoolError(f"`{name}` must have shape {shape}; got {tuple(value.shape)}")


def sharpness(scores: Tensor) -> float:  # (m, k)
    """Return alpha = -log(0.01) / mean gap, so that exp(alpha (second - best score)) is 0.01 at the mean gap.

    Reference: Relja/netvlad.
    """
    if scores.shape[1] == 1:
        return 1.0
    best, second = scores.topk(2).values.unbind(-1)
    gap = float((best - second).mean())
    if gap <= 1e-12 * float(second.abs().max()):  # within round-off of float64
        raise CovpoolError("every descriptor is equally far from all words: give more descriptors that vary more")
    return -math.log(SECOND_SHARE) / gap


def effective_counts(w: Tensor | None) -> Tensor | None:  # (b, n) -> (b, n)
    """Scale weights that sum to one so that they sum to the effective number of positions, 1 / sum w^2.

    Each kept position then counts as one, as without a mask, and the scale of the weights does not matter.
    """
    if w is None:
        return None
    squares = (w * w).sum(-1, keepdim=True)
    return w / torch.where(squares == 0, 1, squares)
