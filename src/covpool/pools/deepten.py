"""Deep-TEN: the residual encoding layer."""

import torch
from torch import Tensor, nn

from covpool.ops.positions import keep_positions
from covpool.ops.residual_sums import residual_sums
from covpool.ops.squared_distances import squared_distances
from covpool.pools._codebook import CodebookPool, effective_counts, sharpness
from covpool.pools.base import PositiveInt, register


@register("deepten", title="Deep-TEN", order="1")
class TextureEncodingPool(CodebookPool):
    """Residuals of features to K codewords, summed with soft assignments by distance, then scaled to unit length.

    Formula: z = l2(sum of softmax_k(-s_k |x - c_k|^2) (x - c_k))
    Reference: Zhang et al., Deep TEN: Texture Encoding Network, CVPR 2017
    Size: K c, K = 32
    Cost: 2 n c clusters

    a_k(x) = softmax_k(-s_k |x - c_k|^2), e_k = sum of a_k(x) (x - c_k), with one smoothing factor s_k per codeword.
    The published network reduces its features first: `reduce_to=128`.

    Args:
        clusters: Number K of codewords.

    >>> import torch
    >>> TextureEncodingPool(64, reduce_to=8)(torch.randn(2, 64, 7, 7)).shape
    torch.Size([2, 256])
    """

    clusters: PositiveInt = 32

    def _build(self) -> None:
        k, (c,) = self.clusters, self.channels
        bound = (k * c) ** -0.5
        self.codewords = nn.Parameter(torch.empty(k, c).uniform_(-bound, bound))
        self.smoothing = nn.Parameter(torch.rand(k))  # the released PyTorch code stores the negative

    @torch.no_grad()
    def init_from(self, descriptors: Tensor, *, seed: int = 0, centers: Tensor | None = None) -> None:
        """Initialize the codewords by k-means of descriptors (m, c), and s so that the second codeword gets 1 %.

        This is NetVLAD's rule. The authors start from random numbers, as a new pool does.

        Args:
            descriptors: Descriptors of many images.
            seed: Seed of k-means.
            centers: Codewords (clusters, c) that were fitted elsewhere, for example by scikit-learn's k-means.
        """
        x = self._checked(descriptors)
        words = self._words(x, seed, centers)
        self.smoothing.fill_(sharpness(-squared_distances(x, words)))
        self.codewords.copy_(words)

    def multiply_adds(self, n: int, c: int) -> float:
        return 2 * n * c * self.clusters

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        x, w = keep_positions(x, mask, weights)
        w = effective_counts(w)
        a = (-self.smoothing * squared_distances(x, self.codewords)).softmax(-1)
        a = a if w is None else a * w.unsqueeze(-1)
        return nn.functional.normalize(residual_sums(x, a, self.codewords).flatten(1))
