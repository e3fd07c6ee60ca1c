"""The Newton-Schulz iteration on jets: the value with its derivatives in directions, without stored iterates.

Y_0 = A, P_0 = I, T = (3 I - P Y) / 2, Y <- Y T, P <- T P. All iterates are polynomials of the same symmetric matrix A,
and Y_k = A P_k throughout. A polynomial's derivative at a symmetric matrix is its own adjoint, so the backward pass is
the same iteration once more, carrying the derivative in the direction of the gradient (docs/derivations.md).

A jet of order m holds 2^m matrices: component s is the mixed derivative in the directions whose bits are set in s.
"""

from typing import Any, Literal

import torch
from torch import Tensor

from covpool.ops._autograd import Differentiable
from covpool.ops.precision import outside_autocast

Jet = tuple[Tensor, ...]  # 2^m matrices (b, c, c)
Output = Literal["root", "factor"]  # Y_N or P_N


def _product(x: Jet, y: Jet, scale: float = 1.0) -> Jet:
    """scale x y, component s = sum over the subsets u of s of x_u y_(s - u)."""
    z = []
    for s in range(len(x)):
        subsets = [u for u in range(s + 1) if u & s == u]
        total = torch.baddbmm(x[0], x[subsets[0]], y[s - subsets[0]], beta=0, alpha=scale)
        for u in subsets[1:]:
            total = torch.baddbmm(total, x[u], y[s - u], alpha=scale)
        z.append(total)
    return tuple(z)


def _plus_three_halves(x: Jet) -> Jet:
    """x + 3/2 I."""
    eye = torch.eye(x[0].shape[-1], dtype=x[0].dtype, device=x[0].device)
    return (x[0] + 1.5 * eye, *x[1:])


def newton_schulz(a: Jet, iterations: int, output: Output) -> Jet:
    """Y_N or P_N of a jet, skipping the products that the result does not need."""
    t = _plus_three_halves(tuple(-0.5 * component for component in a))
    if iterations == 1:
        return _product(a, t) if output == "root" else t
    y, p = _product(a, t), t
    for _ in range(iterations - 2):
        t = _plus_three_halves(_product(p, y, -0.5))
        y, p = _product(y, t), _product(t, p)
    t = _plus_three_halves(_product(p, y, -0.5))
    return _product(y, t) if output == "root" else _product(t, p)


class NewtonSchulzPair(Differentiable):
    """(F, dF[H]) for F = Y_N or P_N at a symmetric A and in a symmetric direction H.

    For F on A + e H + f K + e f C the component e f is d2F[H, K] + dF[C], and f alone is dF[K]. With K, C the tangents
    of A and H these two are the tangents of the outputs; with K, C the gradients of dF and F they are those of H and A.
    """

    @staticmethod
    def forward(a: Tensor, h: Tensor, iterations: int, output: Output) -> tuple[Tensor, Tensor]:
        f, df = newton_schulz((a, h), iterations, output)
        return f, df

    @staticmethod
    def backward(ctx: Any, g: Tensor, dg: Tensor) -> Any:
        a, h = ctx.saved_tensors
        with outside_autocast(g):
            jet = (a, h, (dg + dg.mT) * 0.5, (g + g.mT) * 0.5)
            _, _, dh, da = newton_schulz(jet, *ctx.options)
        return da, dh, None, None

    @staticmethod
    def tangent(ctx: Any, da: Tensor | None, dh: Tensor | None, *_: Any) -> tuple[Tensor, Tensor]:
        a, h = ctx.saved_tensors
        da = torch.zeros_like(a) if da is None else da
        dh = torch.zeros_like(a) if dh is None else dh
        jet = newton_schulz((a, h, da, dh), *ctx.options)
        return jet[2], jet[3]


def newton_schulz_pair(a: Tensor, h: Tensor, iterations: int, output: Output) -> tuple[Tensor, Tensor]:
    """F(A) and its derivative in the direction H, differentiable to any order."""
    return NewtonSchulzPair.call(a, h, iterations, output)
