"""The precision of operations: at least float32, and not lowered by autocast, in the backward pass either."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

from covpool.ops._autograd import Differentiable
from covpool.ops._backend import exporting

P = ParamSpec("P")
R = TypeVar("R")


def at_least_float32(x: Tensor) -> Tensor:
    """Convert half precision to float32; float32 and float64 are unchanged."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def outside_autocast(like: Tensor) -> AbstractContextManager[Any]:
    """A context in which matrix products keep the dtype of their operands.

    A compiled or exported graph leaves autocast in any case, because it may run inside autocast later.
    """
    if in_autocast(like) or (torch.compiler.is_compiling() and like.device.type != "meta"):
        return torch.autocast(like.device.type, enabled=False)
    return nullcontext()


def in_autocast(like: Tensor) -> bool:
    """Whether autocast chooses the dtype of matrix products on the device of a tensor.

    Autocast does not support meta tensors, which have only shapes.
    """
    kind = like.device.type
    return kind != "meta" and torch.is_autocast_enabled(kind)


def full_precision(operation: Callable[Concatenate[Tensor, P], R]) -> Callable[Concatenate[Tensor, P], R]:
    """Decorate an operation so that it runs outside autocast and its first argument is at least float32."""

    @wraps(operation)
    def run(x: Tensor, *args: P.args, **kwargs: P.kwargs) -> R:
        if not isinstance(x, Tensor):
            return operation(x, *args, **kwargs)
        with outside_autocast(x):
            return operation(at_least_float32(x), *args, **kwargs)

    return run


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
