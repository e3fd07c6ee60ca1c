"""Checks of users' arguments: they raise once, at the public edge, with what was expected, what came and the remedy."""

import difflib
import importlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from covpool._errors import CovpoolError, MissingPackageError, WrongTypeError


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value outside `choices`, naming the nearest one."""
    if value in choices:
        return
    raise CovpoolError(f"`{name}` must be one of {list(choices)}; got {value!r}{did_you_mean(value, choices)}")


def did_you_mean(value: object, choices: Iterable[object]) -> str:
    """` (did you mean 'x'?)`, or nothing when no choice is near."""
    near = difflib.get_close_matches(str(value), [str(c) for c in choices], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def check_positive_int(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongTypeError(f"`{name}` must be a positive integer; got {value!r} ({type(value).__name__})")
    if value < 1:
        raise CovpoolError(f"`{name}` must be a positive integer; got {value}")


def check_floating(name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise WrongTypeError(f"`{name}` must be a torch.Tensor; got {type(value).__name__}")
    if not value.is_floating_point():
        raise WrongTypeError(f"`{name}` must be floating point; got {value.dtype}: convert it with .float() first")


def check_features(x: Tensor) -> None:
    """Features (..., n, c) with at least one position and one channel."""
    check_floating("x", x)
    if x.ndim < 2 or x.shape[-1] < 1 or x.shape[-2] < 1:
        raise CovpoolError(f"`x` must have shape (..., n, c) with n, c >= 1; got {tuple(x.shape)}")


def check_square(name: str, a: Tensor) -> None:
    """Square matrices (..., c, c)."""
    check_floating(name, a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or a.shape[-1] < 1:
        raise CovpoolError(f"`{name}` must have shape (..., c, c) with c >= 1; got {tuple(a.shape)}")


def check_positions(name: str, value: object, *shapes: Sequence[int]) -> None:
    """A mask or weights: one entry per position, in one of `shapes`."""
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


def require(module: str, extra: str) -> Any:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(f"this needs {module}: pip install 'covpool[{extra}]'") from error
