"""A limit on the size of a network while it is built."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from covpool._errors import CovpoolError


@contextmanager
def limited_build(elements: int, tensors: int) -> Iterator[None]:
    """Stop the building of a network that becomes too large, before its weights are filled.

    Args:
        elements: The largest number of elements of all parameters and buffers together.
        tensors: The largest number of parameters and buffers.
    """
    builder, size, number = threading.get_ident(), 0, 0

    def count(module: nn.Module, name: str, tensor: Tensor | None) -> None:
        nonlocal size, number
        if tensor is None or threading.get_ident() != builder:
            return
        size, number = size + tensor.numel(), number + 1
        if size > elements or number > tensors:
            raise CovpoolError(f"it has more weights than the file: {name} of {type(module).__name__} is one too many")

    hooks = [register_module_parameter_registration_hook(count), register_module_buffer_registration_hook(count)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
