"""Out of memory: the batch size that would fit."""

import gc
from collections.abc import Callable

import torch


def largest_that_fits(fits: Callable[[int], bool], failed: int) -> int:
    """Find the largest batch below `failed` that fits, to about one sixteenth; 0 if not even one image fits.

    Args:
        fits: Tries a step with a number of images.
        failed: A batch size that did not fit.

    >>> largest_that_fits(lambda images: images <= 37, 128)
    36
    """
    low, high = 0, failed
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def try_step(step: Callable[[int], None], images: int, *, reserve: int, device: torch.device) -> bool:
    """Whether one step fits into the memory of a GPU.

    Args:
        step: Runs forward and backward with a number of images.
        images: Number of images.
        reserve: Bytes that must stay free for the optimizer.
        device: The GPU.
    """
    release_memory()
    try:
        held = torch.empty(reserve, dtype=torch.uint8, device=device)
        step(images)
        del held
    except torch.OutOfMemoryError:
        return False
    finally:
        release_memory()
    return True


def advice(batch_size: int, *, processes: int, accumulate: int, fitting: int) -> str:
    """Advise what to change in a recipe.

    Args:
        batch_size: Batch size of the recipe, over all processes and micro-batches.
        processes: Number of processes.
        accumulate: Current number of micro-batches.
        fitting: Images per micro-batch that fit in one process.

    >>> advice(64, processes=1, accumulate=1, fitting=36)
    'train.batch_size=36 would fit, or train.accumulate=2 with train.batch_size=64'
    """
    if not fitting:
        return "not even one image fits: use smaller images (augment.size), a smaller network, or train.precision=bf16"
    each = batch_size // processes
    cuts = next(n for n in range(accumulate, each + 1) if each % n == 0 and each // n <= fitting)
    smaller = fitting * processes * accumulate
    return f"train.batch_size={smaller} would fit, or train.accumulate={cuts} with train.batch_size={batch_size}"


def release_memory() -> None:
    """Free unused memory of Python and of the GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
