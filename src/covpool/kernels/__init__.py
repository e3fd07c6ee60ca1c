"""Kernels: tensors in, tensors out, no autograd. Only this package imports triton and ctypes.

Importing the package imports neither. The modules that need them are imported by `covpool.ops` at first use.
"""

from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor

from covpool.kernels.gpu import largest_tile as largest_tile


def batched_eigh_available() -> bool:
    """Whether cuSOLVER's batched eigen-decomposition can be used here. Initializes the GPU."""
    from covpool.kernels.eigh import available

    return available()


def freed_memory_kept() -> AbstractContextManager[None]:
    """Keep the memory that freed tensors leave on the CPU; see `covpool.kernels.host_memory`."""
    from covpool.kernels import host_memory

    return host_memory.freed_memory_kept()


def cut_regions(*tensors: Any, size: int, cubic: bool) -> Tensor:
    """Crop and resize regions of images on a GPU; see `covpool.kernels.cut`."""
    from covpool.kernels import cut

    return cut.cut_regions(*tensors, size=size, cubic=cubic)
