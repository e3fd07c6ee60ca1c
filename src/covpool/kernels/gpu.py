"""What a GPU allows: whether the kernels run on it, its multiprocessors, and the shared memory of one program."""

import functools

import torch

MUCH = 227 * 1024  # bytes: data-centre GPUs from Hopper on
ENOUGH = 99 * 1024  # all from Ampere on: the least that the smaller tiles need
OLDEST = (8, 0)  # compute capability
NEEDED_TORCH = {10: "2.10", 11: "2.12"}  # by major capability: the Triton of earlier ones fails to compile them


def multiprocessors(device: torch.device) -> int:
    """How many programs run at the same time at least; 0 on a CPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 0


def shared_memory(device: torch.device) -> int:
    """Bytes that a program may have; 0 where the kernels do not run. A CPU, which interprets them, has no limit."""
    return _of_gpu(device.index) if device.type == "cuda" else MUCH


# What torch.compiler.assume_constant_result does, which would import the compiler here.
shared_memory._dynamo_marked_constant = True  # type: ignore[attr-defined]


@functools.cache
def _of_gpu(index: int | None) -> int:
    if not torch.cuda.is_available():  # that of a fake tensor
        return MUCH
    properties = torch.cuda.get_device_properties(index)
    known = torch.version.hip is None and (properties.major, properties.minor) >= OLDEST
    compiled = torch.__version__ >= NEEDED_TORCH.get(properties.major, "0")
    return properties.shared_memory_per_block_optin if known and compiled else 0
