"""Deep-TEN: the residual encoding layer."""

from typing import Any

import torch
from torch import Tensor, nn

from covpool._registry import register
from covpool.ops.kmeans import kmeans
from covpool.ops.positions import keep_positions
from covpool.ops.residual_sums import residual_sums
from covpool.ops.squared_distances import squared_distances
from covpool.pools.codebook import CodebookPool, amounts, sharpness


@register(
    "deepten",
    title="Deep-TEN",
    paper="Zhang et al., Deep TEN: Texture Encoding Network, CVPR 2017",
    order="1",
    formula="z = l2(sum of softmax_k(-s_k |x - c_k|^2) (x - c_k))",
    size="K c, K = 32",
    cost="2 n c clusters",
)
class TextureEncodingPool(CodebookPool):
    """Residuals of features about K codewords, summed under a soft assignment by distance, then unit length.

    a_k(x) = softmax_k(-s_k |x - c_k|^2), e_k = sum of a_k(x) (x - c_k), with a smoothing factor s_k of each codeword.
    The published network reduces its features first: `reduce_to=128`.

    Args:
        clusters: K.

    >>> import torch
    >>> TextureEncodingPool(64, reduce_to=8)(torch.randn(2, 64, 7, 7)).shape
    torch.Size([2, 256])
    """

    def __init__(self, in_features: int, *, clusters: int = 32, **common: Any) -> None:
        super().__init__(in_features, clusters, lambda c: c, **common)
        c = self.channels[0]
        bound = (clusters * c) ** -0.5
        self.codewords = nn.Parameter(torch.empty(clusters, c).uniform_(-bound, bound))
        self.smoothing = nn.Parameter(torch.rand(clusters))  # the PyTorch release stores it with the opposite sign

    @torch.no_grad()
    def init_from(self, descriptors: Tensor, *, seed: int = 0, centers: Tensor | None = None) -> None:
        """Start from k-means codewords of descriptors (m, c) and the one s that gives the second codeword 1 %.

        The authors start from random numbers, as a new pool does; this is NetVLAD's rule.

        Args:
            descriptors: of many images.
            seed: of k-means.
            centers: (clusters, c), codewords found elsewhere (scikit-learn's k-means) in place of `ops.kmeans`.
        """
        x = self._checked(descriptors)
        words = kmeans(x, self.clusters, seed=seed) if centers is None else self._checked_centers(centers).to(x.device)
        self.smoothing.fill_(sharpness(-squared_distances(x, words)))
        self.codewords.copy_(words)

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        x, w = keep_positions(x, mask, weights)
        w = amounts(w)
        a = (-self.smoothing * squared_distances(x, self.codewords)).softmax(-1)
        a = a if w is None else a * w.unsqueeze(-1)
        return nn.functional.normalize(residual_sums(x, a, self.codewords).flatten(1))
