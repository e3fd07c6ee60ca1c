"""Kernels: tensors in, tensors out, no autograd. Only this package imports triton and ctypes.

Importing the package imports neither. The modules that need them are imported by `covpool.ops` at first use.
"""

from typing import Any

from torch import Tensor

from covpool.kernels.gpu import largest_tile as largest_tile


def batched_eigh_available() -> bool:
    """Whether cuSOLVER's batched eigen-decomposition can be used here. Initializes the GPU."""
    from covpool.kernels.eigh import available

    return available()


def cut_regions(*tensors: Any, size: int, cubic: bool) -> Tensor:
    """Crop and resize regions of images on a GPU; see `covpool.kernels.cut`."""
    from covpool.kernels import cut

    return cut.cut_regions(*tensors, size=size, cubic=cubic)
