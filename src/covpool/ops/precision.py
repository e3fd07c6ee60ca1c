"""The precision of operations: at least float32, and not lowered by autocast."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")


def at_least_float32(x: Tensor) -> Tensor:
    """Convert half precision to float32; float32 and float64 are unchanged."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def outside_autocast(like: Tensor) -> AbstractContextManager[Any]:
    """A context in which matrix products keep the dtype of their operands."""
    if like.device.type == "meta":  # has only shapes, and autocast does not support it
        return nullcontext()
    return torch.autocast(like.device.type, enabled=False)


def in_autocast(like: Tensor) -> bool:
    """Whether autocast chooses the dtype of matrix products on the device of a tensor."""
    return like.device.type != "meta" and torch.is_autocast_enabled(like.device.type)


def full_precision(operation: Callable[Concatenate[Tensor, P], R]) -> Callable[Concatenate[Tensor, P], R]:
    """Decorate an operation so that it runs outside autocast and its first argument is at least float32."""

    @wraps(operation)
    def run(x: Tensor, *args: P.args, **kwargs: P.kwargs) -> R:
        if not isinstance(x, Tensor):
            return operation(x, *args, **kwargs)
        with outside_autocast(x):
            return operation(at_least_float32(x), *args, **kwargs)

    return run
