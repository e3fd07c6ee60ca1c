"""The derivative of a matrix square root that some algorithm has already computed."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from covpool.ops._autograd import Differentiable, keep
from covpool.ops._spectral import once
from covpool.ops.precision import outside_autocast

Solve = Callable[[Tensor, Tensor, Tensor, int | None], Tensor]


class KnownRoot(Differentiable):
    """z, taken as the square root of s. `solve(s, z, g, steps)` finds x with z x + x z = g, its own adjoint.

    Differentiating twice is an error: z need not be the root, so its derivative is not that of a function.
    """

    @staticmethod
    def forward(s: Tensor, z: Tensor, solve: Solve, steps: int | None) -> Tensor:
        return z.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        s, _, ctx.solve, ctx.steps = inputs
        keep(ctx, s, output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        with outside_autocast(g):
            return KnownRoot.tangent(ctx, g), None, None, None

    @staticmethod
    def tangent(ctx: Any, ds: Tensor, *_: Any) -> Tensor:
        s, z = ctx.saved_tensors
        return once(ctx.solve(s, z, ds, ctx.steps), s, None)
