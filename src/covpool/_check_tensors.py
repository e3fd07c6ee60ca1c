"""Checks of users' tensors: dtype and shape."""

from collections.abc import Sequence

import torch
from torch import Tensor

from covpool._errors import CovpoolError, WrongTypeError


def check_floating(name: str, value: object) -> None:
    """Require a floating point tensor."""
    if not isinstance(value, Tensor):
        raise WrongTypeError(f"`{name}` must be a torch.Tensor; got {type(value).__name__}")
    if not value.is_floating_point():
        raise WrongTypeError(f"`{name}` must be floating point; got {value.dtype}: convert it with .float() first")


def check_features(x: Tensor) -> None:
    """Require features (..., n, c) with at least one position and one channel."""
    check_floating("x", x)
    if x.ndim < 2 or x.shape[-1] < 1 or x.shape[-2] < 1:
        raise CovpoolError(f"`x` must have shape (..., n, c) with n, c >= 1; got {tuple(x.shape)}")


def check_square(name: str, a: Tensor) -> None:
    """Require square matrices (..., c, c)."""
    check_floating(name, a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or a.shape[-1] < 1:
        raise CovpoolError(f"`{name}` must have shape (..., c, c) with c >= 1; got {tuple(a.shape)}")


def check_positions(name: str, value: object, *shapes: Sequence[int]) -> None:
    """Require a mask or weights with one entry per position, in one of `shapes`."""
    if not isinstance(value, Tensor):
        raise WrongTypeError(f"`{name}` must be a torch.Tensor; got {type(value).__name__}")
    if tuple(value.shape) not in [tuple(shape) for shape in shapes]:
        expected = " or ".join(str(tuple(shape)) for shape in shapes)
        raise CovpoolError(f"`{name}` must have one entry per position, shape {expected}; got {tuple(value.shape)}")
    if name == "mask" and value.dtype != torch.bool:
        raise WrongTypeError(
            f"`mask` must be boolean, True = keep; got {value.dtype}: use weights= for real-valued weights"
        )
    if name == "weights":
        check_floating(name, value)
