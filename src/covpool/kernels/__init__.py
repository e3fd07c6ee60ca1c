"""Kernels: tensors in, tensors out, no autograd. Only this package imports triton and ctypes.

Importing the package imports neither. The modules that need them are imported by `covpool.ops` at first use.
"""

from covpool.kernels.gpu import largest_tile as largest_tile


def batched_eigh_available() -> bool:
    """Whether cuSOLVER's batched eigen-decomposition can be used here. Initializes the GPU."""
    from covpool.kernels.eigh import available

    return available()
