"""Kernel pooling."""

import math

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool.ops import draw_sketch, elementwise_power_normalize, tensor_sketches, unit_length
from covpool.ops.positions import keep_positions, mean
from covpool.ops.signed_power import GradientMode
from covpool.pools._descriptors import check_descriptors
from covpool.pools._sketches import refuse_other_buckets
from covpool.pools.base import Pool, PositiveInt, register


@register("kernel", title="Kernel pooling", order="1 to 4")
class KernelPool(Pool):
    """The mean feature of a polynomial kernel K(x, y) = sum_i a_i^2 <x, y>^i, approximated by tensor sketches.

    Formula: z = E-PN(mean of [a_0, a_1 x, a_2 TS_2(x), ..., a_p TS_p(x)]), |x| = 1
    Reference: Cui et al., Kernel Pooling for Convolutional Neural Networks, CVPR 2017
    Size: 1 + c + (p - 1) D, 12289 + c by default
    Cost: 1.25 order n size log(2 size)

    Each position is first scaled to unit length. The coefficients a_i are learned. They start from those of the RBF
    kernel exp(-gamma |x - y|^2), where a_i^2 is proportional to (2 gamma)^i / i!. The signed square root of every
    element and unit length follow.

    Args:
        order: Highest power p.
        size: Length D of the sketch of each order above one.
        gamma: Initial gamma of the RBF kernel; `init_from` sets it from data.
        seed: Seed of the random sketches, which are saved with the weights.
        gradient: How the slope of the signed square root stays finite at zero, see `covpool.ops.signed_power`.

    >>> import torch
    >>> KernelPool(64, order=3, size=128)(torch.randn(2, 64, 7, 7)).shape
    torch.Size([2, 321])
    """

    order: PositiveInt = 4
    size: PositiveInt = 4096
    gamma: float = 1.0
    seed: int = 1
    gradient: GradientMode = "bcnn"

    def pooled_size(self, c: int) -> int:
        return 1 + c + (self.order - 1) * self.size

    def _build(self) -> None:
        hashes, signs = draw_sketch(self.order, self.channels[0], self.size, seed=self.seed)
        self.hashes, self.signs = nn.Buffer(hashes), nn.Buffer(signs)  # (p, c) each
        self.register_load_state_dict_pre_hook(refuse_other_buckets)
        self.alpha = nn.Parameter(rbf_coefficients(self.gamma, self.order).float())

    @torch.no_grad()
    def init_from(
        self,
        descriptors: Tensor,  # (k, c), after the reduction
    ) -> None:
        """Set the coefficients to those of the RBF kernel, with gamma = 1 / mean inner product of two descriptors."""
        check_descriptors(descriptors, self.channels[0], least=2)
        k, x = len(descriptors), unit_length(descriptors.double())
        inner = float((x.sum(0).square().sum() - x.square().sum()) / (k * (k - 1)))
        if not inner > 0:
            raise CovpoolError(
                f"the mean inner product of two descriptors must be positive because gamma is its reciprocal; got "
                f"{inner:.3g}: give `gamma` instead"
            )
        self.alpha.copy_(rbf_coefficients(1 / inner, self.order))

    def multiply_adds(self, n: int, c: int) -> float:
        return 1.25 * self.order * n * self.size * math.log2(2 * self.size)

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        x, w = keep_positions(x, mask, weights)
        x = unit_length(x)
        one = x.new_ones(x.shape[0], 1) if w is None else w.sum(-1, keepdim=True)
        alpha = self.alpha.to(x.dtype)
        parts = [alpha[0] * one, alpha[1] * mean(x, w)]
        if self.order > 1:
            sketches = tensor_sketches(x, self.hashes, self.signs, self.size, weights=w)[:, 1:]
            parts.append((alpha[2:, None] * sketches).flatten(1))
        return elementwise_power_normalize(torch.cat(parts, 1), gradient=self.gradient)


def rbf_coefficients(gamma: float, order: int) -> Tensor:  # (p + 1,), float64
    """Return the coefficients a_0 to a_p of the RBF kernel of unit vectors, scaled to K(x, x) = 1.

    a_i^2 = (2 gamma)^i / i! / sum_j (2 gamma)^j / j!. For large p the kernel is exp(-gamma |x - y|^2). Dividing by
    exp(2 gamma) instead of the sum would underflow for a large gamma. The final unit length removes a common factor.

    >>> [round(a * a, 9) for a in rbf_coefficients(0.5, 2).tolist()]
    [0.4, 0.4, 0.2]
    """
    if not 0 < gamma < math.inf:
        raise CovpoolError(f"`gamma` must be positive; got {gamma}")
    logs = [i * math.log(2 * gamma) - math.lgamma(i + 1) for i in range(order + 1)]
    return torch.tensor(logs, dtype=torch.float64).softmax(0).sqrt()
