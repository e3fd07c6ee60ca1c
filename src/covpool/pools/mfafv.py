"""MFAFV-Net: Fisher scores of a trainable mixture of factor analysers."""

import torch
from torch import Tensor, nn

from covpool.ops import elementwise_power_normalize, product
from covpool.ops.factor_mixture import factor_moments, mfa_em
from covpool.ops.positions import keep_positions
from covpool.pools._codebook import CodebookPool
from covpool.pools.base import PositiveInt, register


@register("mfafv", title="MFAFV-Net", order="1, 2")
class FactorAnalysersPool(CodebookPool):
    """Fisher scores of the means and loadings of a trained mixture of K factor analysers.

    Formula: z = E-PN(mean of d log p / d (mu_k, Lambda_k)), p = sum_k pi_k N(mu_k, Lambda_k Lambda_k^T + Psi)
    Reference: Li, Dixit and Vasconcelos, Deep Scene Image Classification with the MFAFVNet, ICCV 2017
    Size: K c (R + 1), K = 50, R = 10
    Cost: 2 n c clusters (factors + 1) + c clusters (factors + 1)^2

    With posteriors g_k and S_k = Lambda_k Lambda_k^T + Psi, the scores are the means over positions of
    g_k S_k^-1 (x - mu_k) and g_k (S_k^-1 (x - mu_k)(x - mu_k)^T S_k^-1 - S_k^-1) Lambda_k. The signed square root of
    every element and unit length follow. For each k, the vector holds the c numbers of the mean, then c numbers for
    each of the R columns of Lambda_k.

    Args:
        clusters: Number K of factor analysers.
        factors: Number R of factors of each.

    >>> import torch
    >>> pool = FactorAnalysersPool(4, clusters=3, factors=2)
    >>> x = torch.randn(2, 4, 7, 7)
    >>> pool.init_from(pool.descriptors(x))
    >>> pool(x).shape
    torch.Size([2, 36])
    """

    clusters: PositiveInt = 50
    factors: PositiveInt = 10

    def pooled_size(self, c: int) -> int:
        return self.clusters * c * (self.factors + 1)

    def _build(self) -> None:
        k, (c,) = self.clusters, self.channels
        self.logits = nn.Parameter(torch.zeros(k))  # pi = softmax(logits)
        self.means = nn.Parameter(torch.randn(k, c))
        self.loadings = nn.Parameter(torch.randn(k, c, self.factors) * self.factors**-0.5)
        self.log_noise = nn.Parameter(torch.zeros(c))  # the logarithm of the diagonal of Psi

    @torch.no_grad()
    def init_from(self, descriptors: Tensor, *, seed: int = 0) -> None:
        """Initialize from a mixture of factor analysers fitted to descriptors (m, c) of many images."""
        mixture = mfa_em(self._checked(descriptors), self.clusters, self.factors, seed=seed)
        self.logits.copy_(mixture.weights.log())
        self.means.copy_(mixture.means)
        self.loadings.copy_(mixture.loadings)
        self.log_noise.copy_(mixture.noise.log())

    def multiply_adds(self, n: int, c: int) -> float:
        return 2 * n * c * self.clusters * (self.factors + 1) + c * self.clusters * (self.factors + 1) ** 2

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        x, w = keep_positions(x, mask, weights)
        middle = self.means.detach().mean(0)  # cancels in differences; keeps a common offset out of products
        precision = (-0.5 * self.log_noise).exp()  # 1 / sqrt(Psi)
        basis = torch.cat(((self.means - middle).unsqueeze(1), self.loadings.mT), 1) * precision  # (k, r + 1, c)
        share = x.new_full(x.shape[:2], 1 / x.shape[1]) if w is None else w
        _, cross, second = factor_moments((x - middle) * precision, self.logits.log_softmax(-1), basis, weights=share)
        scores = (cross - _each(second, basis)) * precision
        return elementwise_power_normalize(scores.flatten(1))


def _each(
    second: Tensor,  # (b, k, r + 1, r + 1)
    basis: Tensor,  # (k, r + 1, c)
) -> Tensor:  # (b, k, r + 1, c)
    """Return second @ basis as one product per k, with the images of the batch as rows."""
    b, k, rows, _ = second.shape
    by_word = second.transpose(0, 1).reshape(k, b * rows, rows)
    return product(by_word, basis).unflatten(1, (b, rows)).transpose(0, 1)
