"""A matrix product that autocast does not lower, in its derivatives either."""

from typing import Any

from torch import Tensor

from covpool.ops._autograd import Differentiable
from covpool.ops._backend import exporting
from covpool.ops.precision import outside_autocast


class _Product(Differentiable):
    """x y. A backward pass inside autocast would lower the derivative of torch's own product."""

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        return x @ y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, y = ctx.saved_tensors
        with outside_autocast(g):
            dx = product(g, y.mT) if ctx.needs_input_grad[0] else None
            dy = product(x.mT, g) if ctx.needs_input_grad[1] else None
        return dx, dy

    @staticmethod
    def tangent(ctx: Any, dx: Tensor | None, dy: Tensor | None) -> Tensor | None:
        x, y = ctx.saved_tensors
        terms = ([] if dx is None else [product(dx, y)]) + ([] if dy is None else [product(x, dy)])
        return sum(terms[1:], terms[0])


def product(
    x: Tensor,  # (..., m, k)
    y: Tensor,  # (..., k, n)
) -> Tensor:  # (..., m, n)
    """x y of matrices with the same leading dimensions, in the dtype of x and y.

    Autocast must be off in the forward pass. The derivatives switch it off themselves.

    >>> import torch
    >>> product(torch.tensor([[1., 2.]]), torch.tensor([[3.], [4.]])).tolist()
    [[11.0]]
    """
    if exporting():
        return x @ y
    return _Product.call(x, y)
