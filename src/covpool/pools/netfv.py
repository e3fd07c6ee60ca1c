"""NetFV and FisherNet: Fisher vectors of a trainable mixture of Gaussians."""

from typing import Literal

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool.ops import elementwise_power_normalize, l2_normalize
from covpool.ops.gaussian_mixture import WEIGHT_BOUND, GaussianMixture, gmm_em, mixture_moments, variance_bound
from covpool.ops.positions import keep_positions
from covpool.pools._codebook import CodebookPool, check_statistics, effective_counts
from covpool.pools.base import register

Variant = Literal["netfv", "fishernet"]
# Lower bound of |w| = 1 / sigma, in the inverse unit of x, as in the released code of FisherNet.
FLOOR = 1e-7


@register("netfv", title="NetFV, FisherNet", order="1, 2")
class FisherVectorPool(CodebookPool):
    """The Fisher vector of features under a trained mixture of K Gaussians with diagonal covariances.

    Formula: z = E-PN(sum of g_k / sqrt(pi_k) [u_k, (u_k^2 - 1) / sqrt(2)]), u_k = (x - mu_k) / sigma_k
    Reference: Lin et al., Bilinear CNNs for Fine-grained Visual Recognition, TPAMI 2018; Tang et al., Deep FisherNet
    Size: 2 K c, K = 64
    Cost: 4 n c clusters

    u_k = w_k x + b_k with w = 1 / sigma, b = -mu / sigma; g_k = softmax_k(log pi_k + sum log|w_k| - |u_k|^2 / 2);
    z = sum over positions of g_k / sqrt(pi_k) [u_k, (u_k^2 - 1) / sqrt(2)]. For each k, the part of the mean comes
    before the part of the variance.

    Args:
        clusters: Number K of Gaussians.
        variant: "netfv" ends with the signed square root of every element and unit length; "fishernet" is the sum over
            positions alone.
        pre_l2: Scale every feature to unit length first; by default for "fishernet" only, as published.

    >>> import torch
    >>> pool = FisherVectorPool(4, clusters=3)
    >>> x = torch.randn(2, 4, 7, 7)
    >>> pool.init_from(pool.descriptors(x))
    >>> pool(x).shape
    torch.Size([2, 24])
    """

    variant: Variant = "netfv"
    pre_l2: bool | None = None

    def pooled_size(self, c: int) -> int:
        return self.clusters * 2 * c

    def _build(self) -> None:
        if self.pre_l2 is None:
            self.pre_l2 = self.variant == "fishernet"
        shape = (self.clusters, *self.channels)
        self.logits = nn.Parameter(torch.zeros(self.clusters))  # pi = softmax(logits)
        self.weight = nn.Parameter(1 + 0.01 * torch.randn(shape))
        self.bias = nn.Parameter(torch.zeros(shape))

    @torch.no_grad()
    def init_from(
        self,
        descriptors: Tensor,
        *,
        seed: int = 0,
        weights: Tensor | None = None,
        means: Tensor | None = None,
        variances: Tensor | None = None,
    ) -> None:
        """Initialize from a mixture of Gaussians fitted to descriptors (m, c).

        Args:
            descriptors: Descriptors of many images.
            seed: Seed of the fit.
            weights, means, variances: A mixture that was fitted elsewhere, for example by scikit-learn: (clusters,),
                (clusters, c) and (clusters, c), all three or none, of unit features if `pre_l2`. Variances below 1e-4
                of the largest variance of the descriptors are raised to that bound.
        """
        x = self._seen(self._checked(descriptors))
        given = self._given(weights, means, variances)
        mixture = gmm_em(x, self.clusters, seed=seed) if given is None else given
        deviations = torch.maximum(mixture.variances.to(x), variance_bound(x)).sqrt()
        self.logits.copy_(mixture.weights.clamp(min=WEIGHT_BOUND).log())
        self.weight.copy_(1 / deviations)
        self.bias.copy_(-mixture.means.to(x) / deviations)

    def _given(self, weights: Tensor | None, means: Tensor | None, variances: Tensor | None) -> GaussianMixture | None:
        """Check a mixture that was fitted elsewhere; None if there is none."""
        if weights is None and means is None and variances is None:
            return None
        if weights is None or means is None or variances is None:
            raise CovpoolError("give `weights`, `means` and `variances` of the mixture together, or none of them")
        check_statistics("weights", weights, (self.clusters,))
        check_statistics("means", means, (self.clusters, self.channels[0]))
        check_statistics("variances", variances, (self.clusters, self.channels[0]))
        return GaussianMixture(weights, means, variances)

    def _seen(self, x: Tensor) -> Tensor:
        return l2_normalize(x) if self.pre_l2 else x

    def multiply_adds(self, n: int, c: int) -> float:
        return 4 * n * c * self.clusters

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        x, w = keep_positions(x, mask, weights)
        floored = self.weight.abs().clamp(min=FLOOR)
        slopes = torch.where(self.weight < 0, -floored, floored)
        log_pi = self.logits.log_softmax(-1)
        mass, first, second = mixture_moments(self._seen(x), log_pi, slopes, self.bias, weights=effective_counts(w))
        scale = (-0.5 * log_pi).exp().unsqueeze(-1)
        z = torch.cat((scale * first, scale * (second - mass.unsqueeze(-1)) / 2**0.5), -1).flatten(1)
        return elementwise_power_normalize(z) if self.variant == "netfv" else z
