"""Improved bilinear pooling: the matrix square root of the second moment."""

from typing import Any, Literal

from torch import Tensor

from covpool._check import check_choice, check_positive_int
from covpool._errors import CovpoolError
from covpool._registry import register
from covpool.ops import (
    covariance,
    elementwise_power_normalize,
    sqrtm_denman_beavers,
    sqrtm_k_matrix,
    sqrtm_lyapunov,
    sqrtm_newton_schulz,
)
from covpool.ops.sqrtm_lyapunov import FORWARDS, Forward
from covpool.pools.base import Pool

Backward = Literal["lyapunov", "iterative_lyapunov", "k_matrix", "autograd"]
BACKWARDS: tuple[Backward, ...] = ("lyapunov", "iterative_lyapunov", "k_matrix", "autograd")


@register(
    "improved_bcnn",
    title="Improved B-CNN",
    paper="Lin and Maji, Improved Bilinear Pooling with CNNs, BMVC 2017",
    order="2",
    formula="z = E-PN(vec((mean of x x^T)^(1/2)))",
    size="c^2",
    cost="n c^2 + about 10 c^3 (eigen-decomposition)",
)
class ImprovedBilinearPool(Pool):
    """The square root of the second moment about zero, then the signed square root of every element and unit length.

    How the root is found and how it is differentiated are two choices, to compare them. The default is exact.

    Args:
        forward: "eigh", "newton_schulz" or "denman_beavers".
        iterations: T, of the last two.
        backward: "lyapunov" solves the Lyapunov equation of the exact root; "iterative_lyapunov" takes a few steps
            towards its solution, which singular moments never reach; "k_matrix" goes through the eigenvectors of
            "eigh"; "autograd" is the derivative of the iteration itself.
        backward_steps: of "iterative_lyapunov".

    >>> import torch
    >>> z = ImprovedBilinearPool(4)(torch.randn(2, 4, 7, 7))
    >>> z.shape, torch.allclose(z.norm(dim=1), torch.ones(2))
    (torch.Size([2, 16]), True)
    """

    def __init__(
        self,
        in_features: int,
        *,
        forward: Forward = "eigh",
        iterations: int = 5,
        backward: Backward = "lyapunov",
        backward_steps: int = 5,
        **common: Any,
    ) -> None:
        check_choice("forward", forward, FORWARDS)
        check_choice("backward", backward, BACKWARDS)
        check_positive_int("iterations", iterations)
        check_positive_int("backward_steps", backward_steps)
        _check_pair(forward, backward)
        super().__init__(in_features, lambda c: c * c, **common)
        self.root_forward, self.iterations = forward, iterations
        self.root_backward, self.backward_steps = backward, backward_steps

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        z = self._root(covariance(x, mask=mask, weights=weights, centered=False))
        return elementwise_power_normalize(z.flatten(1))

    def _root(self, a: Tensor) -> Tensor:
        if self.root_backward == "k_matrix":
            return sqrtm_k_matrix(a)
        if self.root_backward == "autograd" and self.root_forward == "newton_schulz":
            return sqrtm_newton_schulz(a, iterations=self.iterations, prenorm="frobenius")
        if self.root_backward == "autograd":
            return sqrtm_denman_beavers(a, iterations=self.iterations)
        steps = self.backward_steps if self.root_backward == "iterative_lyapunov" else None
        return sqrtm_lyapunov(a, forward=self.root_forward, iterations=self.iterations, steps=steps)


def _check_pair(forward: Forward, backward: Backward) -> None:
    """Refuse a backward that the forward cannot have."""
    if backward == "k_matrix" and forward != "eigh":
        raise CovpoolError(
            f"backward='k_matrix' needs the eigenvectors of forward='eigh'; got forward={forward!r}: "
            "use one of ['lyapunov', 'iterative_lyapunov', 'autograd']"
        )
    if backward == "autograd" and forward == "eigh":
        raise CovpoolError(
            "backward='autograd' differentiates an iteration; torch's own derivative of forward='eigh' is NaN on equal "
            "eigenvalues: use backward='k_matrix', which is the same with a guard, or 'lyapunov', which is exact"
        )
