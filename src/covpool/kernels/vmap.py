"""The vmap rule of our raw operations: a mapped dimension is folded into the batch."""

from typing import Any

from torch import Tensor


def fold_vmap(operation: Any, outputs: int) -> None:
    """Register for a custom op, whose tensors all have the batch first, the rule that folds a mapped dimension into it.

    Args:
        operation: the custom op.
        outputs: how many tensors it returns. One of no elements is passed on as it is.
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

        result = operation(*(fold(value, dim) for value, dim in zip(args, in_dims, strict=True)))
        if outputs == 1:
            return unfold(result), 0
        return tuple(unfold(value) for value in result), (0,) * outputs
