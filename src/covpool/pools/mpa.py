"""Covariance pooling with the square root computed by a Pade approximant or a Taylor polynomial."""

from functools import partial
from typing import Literal

from torch import Tensor

from covpool.ops import RootBackward, covariance, vech
from covpool.ops.sqrtm_pade import pade_root
from covpool.ops.sqrtm_taylor import taylor_root
from covpool.pools._triangle import TrianglePool
from covpool.pools.base import PositiveInt, register

Approximation = Literal["pade", "taylor"]


@register("mpa", title="MPA-Lya, MTP-Lya", order="2")
class PadeSquareRootPool(TrianglePool):
    """The upper triangle of the square root of the covariance by a rational or polynomial approximation.

    Formula: z = vech(sqrt(t) Q(Sigma / t)^-1 P(Sigma / t)), t = |Sigma|_F
    Reference: Song et al., Fast Differentiable Matrix Square Root, ICLR 2022
    Size: c (c + 1) / 2
    Cost: n c^2 + about 7 c^3

    Args:
        approximation: "pade" is the diagonal Pade approximant (MPA), "taylor" the Taylor polynomial (MTP).
        degree: Degree of the polynomials; by default 5 for "pade" and 10 for "taylor", as published.
        backward: "iterative" solves the Lyapunov equation of the root by Newton-Schulz steps, as published; "lyapunov"
            solves it exactly; "autograd" differentiates the approximation itself.
        steps: Number of steps of the iterative solution.

    >>> import torch
    >>> PadeSquareRootPool(64)(torch.randn(2, 64, 7, 7)).shape
    torch.Size([2, 2080])
    """

    approximation: Approximation = "pade"
    degree: PositiveInt | None = None
    backward: RootBackward = "iterative"
    steps: PositiveInt = 8

    def _build(self) -> None:
        if self.approximation == "pade":
            root = partial(pade_root, order=self.degree or 5)
        else:
            root = partial(taylor_root, degree=self.degree or 10)
        self.root = partial(root, backward=self.backward, steps=self.steps, symmetric=True)

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c**2 + 7 * c**3

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        return vech(self.root(covariance(x, mask=mask, weights=weights)))
