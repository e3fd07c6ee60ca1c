"""Improved bilinear pooling: the matrix square root of the second moment."""

from typing import Any, Literal

from torch import Tensor

from covpool import ops
from covpool._errors import CovpoolError
from covpool.ops.sqrtm_lyapunov import Forward
from covpool.pools.base import Pool, PositiveInt, register

Backward = Literal["lyapunov", "iterative_lyapunov", "k_matrix", "autograd"]


@register("improved_bcnn", title="Improved B-CNN", order="2")
class ImprovedBilinearPool(Pool):
    """The square root of the second moment about zero, then the signed square root of every element and unit length.

    Formula: z = E-PN(vec((mean of x x^T)^(1/2)))
    Reference: Lin and Maji, Improved Bilinear Pooling with CNNs, BMVC 2017
    Size: c^2
    Cost: n c^2 + about 10 c^3 (eigen-decomposition)

    The algorithm of the root and the algorithm of its derivative are separate options. The defaults are exact.

    Args:
        forward: Algorithm of the root: "eigh", "newton_schulz" or "denman_beavers".
        iterations: Number T of iterations of "newton_schulz" and "denman_beavers".
        backward: Algorithm of the derivative. "lyapunov" solves the Lyapunov equation of the exact root;
            "iterative_lyapunov" takes a few steps towards its solution and does not converge for singular moments;
            "k_matrix" uses the eigenvectors of "eigh"; "autograd" differentiates the iteration itself.
        backward_steps: Number of steps of "iterative_lyapunov".

    >>> import torch
    >>> z = ImprovedBilinearPool(4)(torch.randn(2, 4, 7, 7))
    >>> z.shape, torch.allclose(z.norm(dim=1), torch.ones(2))
    (torch.Size([2, 16]), True)
    """

    normalizes = "moment"

    iterations: PositiveInt = 5
    backward_steps: PositiveInt = 5

    def __init__(
        self, in_features: int, *, forward: Forward = "eigh", backward: Backward = "lyapunov", **options: Any
    ) -> None:
        _check_pair(forward, backward)
        super().__init__(in_features, **options)
        self.root_forward, self.root_backward = forward, backward

    def pooled_size(self, c: int) -> int:
        return c * c

    def multiply_adds(self, n: int, c: int) -> float:
        return n * c**2 + 10 * c**3  # of the eigen-decomposition

    def _pool(self, x: Tensor, *, mask: Tensor | None, weights: Tensor | None) -> Tensor:
        return ops.elementwise_power_normalize(self._matrix(x, mask=mask, weights=weights).flatten(1))

    def _matrix(self, x: Tensor, *, mask: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        if self.root_forward == "eigh" and self.root_backward == "lyapunov":
            return ops.powm_covariance(x, 0.5, mask=mask, weights=weights, centered=False)
        return self._root(ops.covariance(x, mask=mask, weights=weights, centered=False))

    def _root(self, a: Tensor) -> Tensor:
        if self.root_backward == "k_matrix":
            return ops.sqrtm_k_matrix(a)
        if self.root_backward == "autograd" and self.root_forward == "newton_schulz":
            return ops.sqrtm_newton_schulz(a, iterations=self.iterations, prenorm="frobenius")
        if self.root_backward == "autograd":
            return ops.sqrtm_denman_beavers(a, iterations=self.iterations)
        steps = self.backward_steps if self.root_backward == "iterative_lyapunov" else None
        return ops.sqrtm_lyapunov(a, forward=self.root_forward, iterations=self.iterations, steps=steps)


def _check_pair(forward: Forward, backward: Backward) -> None:
    """Refuse a backward that does not work with the forward."""
    if backward == "k_matrix" and forward != "eigh":
        raise CovpoolError(
            f"backward='k_matrix' needs the eigenvectors of forward='eigh'; got forward={forward!r}: "
            "use one of ['lyapunov', 'iterative_lyapunov', 'autograd']"
        )
    if backward == "autograd" and forward == "eigh":
        raise CovpoolError(
            "backward='autograd' needs an iteration; torch's derivative of forward='eigh' is NaN on equal eigenvalues: "
            "use backward='k_matrix', the same derivative with a guard, or 'lyapunov', which is exact"
        )
