"""Find the module in which NaN or inf first appears."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class NonFiniteError(RuntimeError):
    """A module produced NaN or inf. `module` is its name, `where` "input" or "output" or "gradient"."""

    def __init__(self, module: str, kind: str, where: str, tensor: Tensor) -> None:
        bad = (~torch.isfinite(tensor)).sum().item()
        super().__init__(
            f"NaN or inf first appeared in the {where} of {module or 'the model itself'} ({kind}): "
            f"{bad} of {tensor.numel()} values, shape {tuple(tensor.shape)}, dtype {tensor.dtype}"
        )
        self.module, self.where = module, where


@contextmanager
def check_finite(model: nn.Module) -> Iterator[None]:
    """While active, raise `NonFiniteError` at the first module whose input, output or gradient is not finite.

    Modules are watched in the order in which they run, so the name in the error is where the trouble began. Every check
    waits for the device: use it to look for a fault, not all the time.

    Args:
        model: any module.

    >>> import torch, covpool
    >>> pool = covpool.create_pool("isqrt", 8)
    >>> with covpool.diagnostics.check_finite(pool):
    ...     z = pool(torch.randn(2, 8, 4, 4))
    """
    handles = []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(_watch_input(name)))
        handles.append(module.register_forward_hook(_watch_output(name)))
        handles.append(module.register_full_backward_hook(_watch_gradient(name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _watch_input(name: str) -> Any:
    def hook(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        _refuse(name, module, "input", inputs)

    return hook


def _watch_output(name: str) -> Any:
    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        _refuse(name, module, "output", output)

    return hook


def _watch_gradient(name: str) -> Any:
    def hook(module: nn.Module, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        _refuse(name, module, "gradient", inputs)

    return hook


def _refuse(name: str, module: nn.Module, where: str, value: Any) -> None:
    for tensor in _tensors(value):
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise NonFiniteError(name, type(module).__name__, where, tensor)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
