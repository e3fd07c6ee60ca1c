"""Custom operations of torch, whose vmap rule folds the mapped dimension into the batch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from covpool.kernels import shape


def custom_operation(name: str, function: Callable[..., Any], shapes: Callable[..., Any]) -> Any:
    """Make a function of tensors an operation that torch can compile, export and map.

    Args:
        name: Name of the operation among those of covpool.
        function: The function.
        shapes: Gives empty tensors in place of the function's results, for the same arguments.
    """
    operation = torch.library.custom_op(f"covpool::{name}", function, mutates_args=())
    operation.register_fake(shapes)
    fold_vmap(operation)
    return operation


def fold_vmap(operation: Any) -> None:
    """Register a vmap rule that folds the mapped dimension into the batch, the first dimension of every tensor.

    A tensor without elements is passed on unchanged.
    """

    @operation.register_vmap
    def _(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        size = info.batch_size

        def fold(value: Any, dim: int | None) -> Any:
            if not isinstance(value, Tensor):
                return value
            value = value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)
            return value.flatten(0, 1) if value.numel() else value[0]

        def unfold(value: Tensor) -> Tensor:
            return value.unflatten(0, (size, -1)) if value.numel() else value.expand(size, *value.shape)

        results = _in_parts(operation, [fold(value, dim) for value, dim in zip(args, in_dims, strict=True)])
        if len(results) == 1:
            return unfold(results[0]), 0
        return tuple(map(unfold, results)), (0,) * len(results)


def _in_parts(operation: Any, args: list[Any]) -> tuple[Tensor, ...]:
    """The outputs for a batch of any size, in chunks of the largest batch of a launch."""
    batch = max(len(value) for value in args if isinstance(value, Tensor))
    parts = []
    for start in range(0, max(batch, 1), shape.LARGEST_BATCH):
        items = slice(start, start + shape.LARGEST_BATCH)
        result = operation(*(value[items] if isinstance(value, Tensor) else value for value in args))
        parts.append((result,) if isinstance(result, Tensor) else result)
    return parts[0] if len(parts) == 1 else tuple(torch.cat(values) for values in zip(*parts, strict=True))
