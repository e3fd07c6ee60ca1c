"""NetVLAD."""

from typing import Literal

import torch
from torch import Tensor, nn

from covpool.ops import l2_normalize, product
from covpool.ops.positions import keep_positions
from covpool.ops.residual_sums import residual_sums
from covpool.ops.squared_distances import squared_distances
from covpool.pools._codebook import CodebookPool, effective_counts, sharpness
from covpool.pools.base import register

Version = Literal["v1", "v2"]
# Sharpness of the assignment before `init_from`; k-means words of real descriptors give this order of magnitude.
ALPHA = 100.0


@register("netvlad", title="NetVLAD", order="1")
class VladPool(CodebookPool):
    """Residuals of unit features to K words, summed with soft assignments; unit length per word, then overall.

    Formula: z = l2(intra-l2(sum of softmax_k(w_k.x + b_k) (x - c_k)))
    Reference: Arandjelovic et al., NetVLAD: CNN Architecture for Weakly Supervised Place Recognition, CVPR 2016
    Size: K c, K = 64
    Cost: 2 n c clusters

    a_k(x) = softmax_k(w_k.x + b_k), V_k = sum of a_k(x) (x - c_k).

    Args:
        clusters: Number K of words.
        version: "v1" has no b and starts from w = alpha c / |c|. "v2" starts from w = 2 alpha c and b = -alpha |c|^2,
            so that a_k = softmax_k(-alpha |x - c_k|^2). All of them are then trained independently.
        pre_l2: Scale every feature to unit length first.

    >>> import torch
    >>> pool = VladPool(4, clusters=3)
    >>> x = torch.randn(2, 4, 7, 7)
    >>> pool.init_from(pool.descriptors(x))
    >>> pool(x).shape
    torch.Size([2, 12])
    """

    version: Version = "v1"
    pre_l2: bool = True

    def _build(self) -> None:
        shape = (self.clusters, *self.channels)
        self.centers = nn.Parameter(torch.empty(shape))
        self.assign_weight = nn.Parameter(torch.empty(shape))
        self.assign_bias = nn.Parameter(torch.empty(self.clusters)) if self.version == "v2" else None
        self._start(l2_normalize(torch.randn(shape)), ALPHA)

    def init_from(self, descriptors: Tensor, *, seed: int = 0, centers: Tensor | None = None) -> None:
        """Initialize the words by k-means of descriptors (m, c), and alpha so that the second word gets 1 %.

        Args:
            descriptors: Descriptors of many images; the authors take 100 of each image, 50 000 in total.
            seed: Seed of k-means.
            centers: Words (clusters, c) that were fitted elsewhere, for example by scikit-learn's k-means, to unit
                features if `pre_l2`.
        """
        x = self._seen(self._checked(descriptors))
        words = self._words(x, seed, centers)
        scores = x @ l2_normalize(words).mT if self.version == "v1" else -squared_distances(x, words)
        self._start(words, sharpness(scores))

    @torch.no_grad()
    def _start(self, words: Tensor, alpha: float) -> None:
        self.centers.copy_(words)
        if self.assign_bias is None:
            self.assign_weight.copy_(alpha * l2_normalize(words))
        else:
            self.assign_weight.copy_(2 * alpha * words)
            self.assign_bias.copy_(-alpha * (words * words).sum(-1))

    def _seen(self, x: Tensor) -> Tensor:
        return l2_normalize(x) if self.pre_l2 else x

    def multiply_adds(self, n: int, c: int) -> float:
        return 2 * n * c * self.clusters

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        x, w = keep_positions(x, mask, weights)
        x, w = self._seen(x), effective_counts(w)
        logits = product(x.flatten(0, 1), self.assign_weight.mT).unflatten(0, x.shape[:2])
        if self.assign_bias is not None:
            logits = logits + self.assign_bias
        a = logits.softmax(-1)
        a = a if w is None else a * w.unsqueeze(-1)
        return l2_normalize(l2_normalize(residual_sums(x, a, self.centers)).flatten(1))
