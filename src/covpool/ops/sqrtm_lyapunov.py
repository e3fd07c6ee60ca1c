"""The square root of a symmetric matrix by any algorithm, differentiated through the Lyapunov equation of its root."""

from typing import Literal

import torch
from torch import Tensor

from covpool._check_tensors import check_square
from covpool._errors import check_choice, check_positive_int
from covpool.ops._known_root import KnownRoot
from covpool.ops._spectral import rotate
from covpool.ops.eigh import eigh
from covpool.ops.elementary import reciprocal_or_zero, symmetrize
from covpool.ops.lyapunov_newton_schulz import lyapunov_newton_schulz
from covpool.ops.powm_eigh import null_threshold, powm_eigh
from covpool.ops.precision import full_precision
from covpool.ops.sqrtm_denman_beavers import sqrtm_denman_beavers
from covpool.ops.sqrtm_newton_schulz import sqrtm_newton_schulz

Forward = Literal["eigh", "newton_schulz", "denman_beavers"]
FORWARDS: tuple[Forward, ...] = ("eigh", "newton_schulz", "denman_beavers")


def _solve(s: Tensor, z: Tensor, g: Tensor, steps: int | None) -> Tensor:
    """x with z x + x z = sym(g): exactly for the exact root of s, or in steps for the given z."""
    if steps is not None:
        return lyapunov_newton_schulz(z, symmetrize(g), steps=steps)
    eigenvalues, u = eigh(s)
    null = eigenvalues <= null_threshold(eigenvalues, "rank", s.shape[-1])
    roots = torch.where(null, 0, eigenvalues).sqrt()
    sums = roots.unsqueeze(-1) + roots.unsqueeze(-2)
    return u @ (reciprocal_or_zero(sums) * rotate(u, g)) @ u.mT


@full_precision
def sqrtm_lyapunov(
    a: Tensor,  # (..., c, c)
    *,
    forward: Forward = "eigh",
    iterations: int = 5,
    steps: int | None = None,
) -> Tensor:  # (..., c, c)
    """The square root z of positive semi-definite matrices, whose derivative dz solves z dz + dz z = da.

    If an iteration has not converged, dz is not the exact derivative of its result. In `sqrtm_newton_schulz` and
    `sqrtm_denman_beavers` it is. Second derivatives raise an error.

    Args:
        a: Symmetric positive semi-definite matrices. Only their symmetric part counts.
        forward: "eigh" is exact (`powm_eigh`); "newton_schulz" (Frobenius norm before, its root after) and
            "denman_beavers" iterate.
        iterations: Number of iterations of the forward pass.
        steps: None solves the equation exactly for the exact root, even if the forward pass iterates. A number takes
            that many steps of `lyapunov_newton_schulz` on the computed root; for singular `a` the result is wrong for
            every number.

    Shape: (..., c, c) -> (..., c, c).

    Reference: Lin and Maji, "Improved Bilinear Pooling with CNNs".

    >>> import torch
    >>> a = torch.diag(torch.tensor([4., 9.])).requires_grad_()
    >>> sqrtm_lyapunov(a, forward="newton_schulz", iterations=10).sum().backward()
    >>> a.grad  # 1 / (z_i + z_j)
    tensor([[0.2500, 0.2000],
            [0.2000, 0.1667]])
    """
    check_square("a", a)
    check_choice("forward", forward, FORWARDS)
    check_positive_int("iterations", iterations)
    if steps is not None:
        check_positive_int("steps", steps)
    if forward == "eigh" and steps is None:
        return powm_eigh(a, 0.5)
    s = symmetrize(a)
    return KnownRoot.call(s, _value(s.detach(), forward, iterations), _solve, steps)


def _value(s: Tensor, forward: Forward, iterations: int) -> Tensor:
    if forward == "eigh":
        return powm_eigh(s, 0.5)
    if forward == "newton_schulz":
        return sqrtm_newton_schulz(s, iterations=iterations, prenorm="frobenius")
    return sqrtm_denman_beavers(s, iterations=iterations)
