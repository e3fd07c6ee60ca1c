"""The limits of a GPU: whether the kernels run on it, its multiprocessors, and the shared memory of one program."""

import functools
import importlib.util

import torch

TRITON_INSTALLED = importlib.util.find_spec("triton") is not None
LARGE_SHARED_MEMORY = 227 * 1024  # bytes: data-center GPUs from Hopper on
MIN_SHARED_MEMORY = 99 * 1024  # bytes: every GPU from Ampere on has them, and the smaller tiles need them
OLDEST = (8, 0)  # compute capability
NEEDED_TORCH = {10: "2.10", 11: "2.12"}  # by major capability: the Triton of earlier releases cannot compile for it


def multiprocessors(device: torch.device) -> int:
    """How many programs run at the same time, at least; 0 on a CPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 0


def shared_memory(device: torch.device) -> int:
    """Bytes of shared memory that a program may use; 0 where the kernels do not run. On a CPU there is no limit."""
    return _of_gpu(device.index) if device.type == "cuda" else LARGE_SHARED_MEMORY


# The effect of torch.compiler.assume_constant_result, which would import the compiler.
shared_memory._dynamo_marked_constant = True  # type: ignore[attr-defined]


def largest_tile(device: torch.device) -> int:
    """Order of the largest tiles of the Triton kernels on a device: 128, 64, or 0 where the kernels do not run."""
    room = shared_memory(device)
    if room < MIN_SHARED_MEMORY or not TRITON_INSTALLED:
        return 0
    return 128 if room >= LARGE_SHARED_MEMORY else 64


@functools.cache
def _of_gpu(index: int | None) -> int:
    if not torch.cuda.is_available():  # the device of a fake tensor
        return LARGE_SHARED_MEMORY
    properties = torch.cuda.get_device_properties(index)
    known = torch.version.hip is None and (properties.major, properties.minor) >= OLDEST
    compiled = torch.__version__ >= NEEDED_TORCH.get(properties.major, "0")
    return properties.shared_memory_per_block_optin if known and compiled else 0
