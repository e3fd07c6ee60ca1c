"""The Lyapunov equation of symmetric matrices by Newton-Schulz iteration: matrix products alone."""

import torch
from torch import Tensor

from covpool._errors import check_positive_int
from covpool.ops.elementary import frobenius_norm, reciprocal_or_zero
from covpool.ops.lyapunov import check_equation
from covpool.ops.precision import full_precision, product


def lyapunov_steps(
    a: Tensor,  # (..., c, c), symmetric, with eigenvalues in [0, 1]
    q: Tensor,  # (..., c, c)
    steps: int,
) -> Tensor:  # (..., c, c)
    """The iteration of `lyapunov_newton_schulz` on a normalized matrix."""
    if not torch.is_grad_enabled():
        shape = torch.broadcast_shapes(a.shape, q.shape)
        a, q = (m.expand(shape).reshape(-1, *shape[-2:]) for m in (a, q))
        return _fused_steps(a, q, steps).reshape(shape)
    three = 3 * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    for step in range(steps):
        t = three - product(a, a.view_as(a))  # torch.compile rejects a Function that gets the same tensor twice
        q = (product(q, t) - product(a, product(a, q) - product(q, a))) * 0.5
        if step + 1 < steps:
            a = product(a, t) * 0.5
    return q * 0.5


def _fused_steps(a: Tensor, q: Tensor, steps: int) -> Tensor:  # (b, c, c)
    """The same with every sum inside a product. Autocast would lower the derivatives of these products."""
    for step in range(steps):
        square = a @ a
        commutator = torch.baddbmm(a @ q, q, a, alpha=-1)
        q = torch.baddbmm(torch.baddbmm(q, q, square, beta=1.5, alpha=-0.5), a, commutator, alpha=-0.5)
        if step + 1 < steps:
            a = torch.baddbmm(a, a, square, beta=1.5, alpha=-0.5)
    return q * 0.5


@full_precision
def lyapunov_newton_schulz(
    a: Tensor,  # (..., c, c)
    q: Tensor,  # (..., c, c)
    *,
    steps: int = 8,
) -> Tensor:  # (..., c, c)
    """The solution x of a x + x a = q by Newton-Schulz steps towards the matrix sign of [[a, q], [0, -a]].

    a, q <- a / |a|_F, q / |a|_F, then q <- (q (3 I - a^2) - a (a q - q a)) / 2, a <- a (3 I - a^2) / 2; x = q / 2.

    For positive definite a it converges to `lyapunov_solve`, more slowly if a is ill-conditioned. For singular a it
    does not converge: between range and null space it tends to half of the solution, and between null directions, where
    there is no solution, it grows as 1.5^steps. It stays finite for any practical number of steps.

    Args:
        a: Symmetric positive semi-definite matrices. Only their symmetric part counts.
        q: Right-hand sides, symmetric or not.
        steps: Number of iterations; 8 in Song et al., 5 in Lin and Maji's code.

    Shape: (..., c, c), (..., c, c) -> (..., c, c), leading dimensions broadcast. A zero a gives zero.

    Reference: Lin and Maji, "Improved Bilinear Pooling with CNNs"; Song et al., "Fast Differentiable Matrix Square
    Root".

    >>> import torch
    >>> lyapunov_newton_schulz(torch.diag(torch.tensor([1., 3.])), torch.ones(2, 2))
    tensor([[0.5000, 0.2500],
            [0.2500, 0.1667]])
    """
    check_positive_int("steps", steps)
    a, q = check_equation(a, q)
    scale = reciprocal_or_zero(frobenius_norm(a))
    return lyapunov_steps(a * scale, q * scale, steps)
