"""A square root computed by any approximation near the identity, with the derivative of the exact root."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from covpool._check_tensors import check_square
from covpool._errors import check_choice, check_positive_int
from covpool.ops._autograd import is_eager, is_eager_gradient, needs_derivative
from covpool.ops._backend import choose_backend, exporting, kernels_serve, matmul_precision
from covpool.ops._known_root import KnownRoot
from covpool.ops.elementary import frobenius_norm, symmetrize
from covpool.ops.lyapunov import lyapunov_solve
from covpool.ops.lyapunov_newton_schulz import lyapunov_steps

RootBackward = Literal["iterative", "lyapunov", "autograd"]
MOST_STEPS = 16  # that the kernels take
ROOT_BACKWARDS: tuple[RootBackward, ...] = ("iterative", "lyapunov", "autograd")


def approximate_root(
    a: Tensor,  # (..., c, c)
    approximant: Callable[[Tensor], Tensor],
    backward: RootBackward,
    steps: int,
    symmetric: bool = False,
) -> Tensor:  # (..., c, c)
    """sqrt(t) f(a / t), t = |a|_F, for a function f close to the root on symmetric matrices with eigenvalues in [0, 1].

    Args:
        a: Positive semi-definite matrices. Zero gives zero.
        approximant: The function f.
        backward: The derivative of the exact root at the result z, the solution x of z x + x z = g, by Newton-Schulz
            steps ("iterative") or exactly ("lyapunov"), once; "autograd" is the derivative of sqrt(t) f(a / t) itself.
        steps: Number of steps of the iterative solution.
        symmetric: Whether `a` is symmetric, and whatever takes the gradient in it reads only its symmetric part.
            Otherwise the symmetric part of `a` counts.
    """
    check_square("a", a)
    check_choice("backward", backward, ROOT_BACKWARDS)
    check_positive_int("steps", steps)
    s = a if symmetric else symmetrize(a)
    if backward == "autograd" or exporting():
        return _scaled(s, approximant)
    return KnownRoot.call(s, _scaled(s.detach(), approximant), _solve, steps if backward == "iterative" else None)


def _scaled(s: Tensor, approximant: Callable[[Tensor], Tensor]) -> Tensor:
    t, zero = _norm(s)
    z = approximant(s * torch.where(zero, 0, 1 / t))
    return (z + z.mT) * (0.5 * torch.where(zero, 0, t.sqrt()))


def _norm(s: Tensor) -> tuple[Tensor, Tensor]:
    """|s|_F, or one where it is below the smallest normal number, and whether it is."""
    if s.dtype == torch.float32 and is_eager(s) and not needs_derivative(s, None):
        t = torch.linalg.vector_norm(s, dim=(-2, -1), keepdim=True, dtype=torch.float64).to(s.dtype)
    else:
        t = frobenius_norm(s)
    zero = t < torch.finfo(t.dtype).tiny
    return torch.where(zero, 1, t), zero


def _solve(s: Tensor, z: Tensor, g: Tensor, steps: int | None) -> Tensor:
    """x with z x + x z = g, or its symmetric part, which alone counts. It is linear in g and its own adjoint."""
    if steps is None:
        return lyapunov_solve(z, g)
    if not torch.is_grad_enabled() and _kernels_serve(s, z, g, steps):
        from covpool.kernels import lyapunov  # at first use: `import covpool` must not import triton

        left, root, right = (m.reshape(-1, *m.shape[-2:]) for m in (s, z, g))
        return lyapunov.solve_eager(left, root, right, steps, matmul_precision(s, None)).reshape(s.shape)
    t, zero = _norm(s)
    r = torch.where(zero, 0, t.rsqrt())
    return lyapunov_steps(z * r, g * r, steps)


def _kernels_serve(s: Tensor, z: Tensor, g: Tensor, steps: int) -> bool:
    served = steps <= MOST_STEPS and s.numel() > 0 and is_eager(s, z) and kernels_serve(s, s.shape[-1])
    return choose_backend("auto", s.device.type, served) == "triton" and is_eager_gradient(g)
