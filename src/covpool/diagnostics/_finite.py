"""Find the module in which NaN or inf first appears."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from covpool._errors import CovpoolError


class NonFiniteError(CovpoolError, RuntimeError):
    """A module produced NaN or inf.

    Attributes:
        module: Name of the module in the model.
        where: "input", "output", "gradient" (of the input), or "gradient of " followed by the name of a parameter.
    """

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

    Modules are checked in the order in which they run, forward and backward, so the error names the module where the
    first such value appeared. Every check waits for the device, so use it only to find a fault.

    Args:
        model: Any module.

    >>> import torch, covpool
    >>> pool = covpool.create_pool("isqrt", 8)
    >>> with covpool.diagnostics.check_finite(pool):
    ...     z = pool(torch.randn(2, 8, 4, 4))
    """
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            check_input = partial(_check_input, hooks, name)
            hooks.enter_context(module.register_forward_pre_hook(check_input, with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(partial(_check_output, name)))
            for key, parameter in module.named_parameters(recurse=False):
                if parameter.requires_grad:
                    hooks.enter_context(parameter.register_hook(partial(_refuse, name, module, f"gradient of {key}")))
        yield


def _check_input(
    hooks: ExitStack, name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    def watched(tensor: Tensor) -> Tensor:
        _refuse(name, module, "input", tensor)
        if not (tensor.requires_grad and torch.is_grad_enabled()):
            return tensor
        own = tensor.view_as(tensor)  # its gradient comes from this module, not from all users
        hooks.enter_context(own.register_hook(partial(_refuse, name, module, "gradient")))
        return own

    return tree_map_only(Tensor, watched, (args, kwargs))


def _check_output(name: str, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
    tree_map_only(Tensor, partial(_refuse, name, module, "output"), output)


def _refuse(name: str, module: nn.Module, where: str, tensor: Tensor) -> None:
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        raise NonFiniteError(name, type(module).__name__, where, tensor)
