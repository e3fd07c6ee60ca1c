"""One workspace for the intermediate tensors of several launches, in which tensors share memory where they can."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard

from torch import Tensor

ALIGNMENT = 256  # bytes; Triton compiles kernels for addresses that are multiples of 16


class Block(NamedTuple):
    """Memory that is needed from one launch to another, both included."""

    first: int
    last: int
    size: int


class Workspace:
    """Places for all tensors among the arguments of launches but the known ones.

    Args:
        launches: The arguments of every launch, in order.
        known: Tensors that have memory of their own. Launches take them as they are, never a view of them.
    """

    def __init__(self, launches: Sequence[Sequence[Any]], known: Sequence[Tensor | None]) -> None:
        ids = {id(t) for t in known}
        others = {_memory(t) for t in known if t is not None}
        blocks: dict[int, Block] = {}
        for index, args in enumerate(launches):
            for t in args:
                if not has_address(t) or id(t) in ids:
                    continue
                memory = _memory(t)
                assert memory not in others, "a planned function passes its inputs and outputs to kernels as they are"
                first = blocks[memory].first if memory in blocks else index
                blocks[memory] = Block(first, index, t.untyped_storage().nbytes())
        self._offsets = dict(zip(blocks, arrange(list(blocks.values())), strict=True))
        ends = [self._offsets[memory] + block.size for memory, block in blocks.items()]
        self.bytes = -(-max(ends, default=0) // ALIGNMENT) * ALIGNMENT

    def offset(self, t: Tensor) -> int:
        """The place of a tensor, in bytes from the start."""
        memory = _memory(t)
        return self._offsets[memory] + t.data_ptr() - memory


def arrange(blocks: Sequence[Block]) -> list[int]:
    """Offsets of blocks in one workspace. Blocks that are needed at different times may share memory.

    >>> arrange([Block(0, 1, 256), Block(1, 2, 1024), Block(2, 2, 256)])
    [1024, 0, 1024]
    """
    offsets = [0] * len(blocks)
    placed: list[int] = []
    for i in sorted(range(len(blocks)), key=lambda i: -blocks[i].size):
        block = blocks[i]
        for j in sorted(placed, key=lambda j: offsets[j]):
            other = blocks[j]
            if block.first <= other.last and other.first <= block.last and offsets[j] < offsets[i] + block.size:
                offsets[i] = max(offsets[i], -(-(offsets[j] + other.size) // ALIGNMENT) * ALIGNMENT)
        placed.append(i)
    return offsets


def has_address(value: Any) -> TypeGuard[Tensor]:
    """Whether an argument is a tensor in memory; an empty tensor is not."""
    return isinstance(value, Tensor) and value.numel() > 0


def _memory(t: Tensor) -> int:
    """The address of a tensor's storage."""
    return t.untyped_storage().data_ptr()
