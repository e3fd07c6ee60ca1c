"""Out of memory: which batch would fit."""

import gc
from collections.abc import Callable

import torch


def largest_that_fits(fits: Callable[[int], bool], failed: int) -> int:
    """The largest batch below `failed` that fits, to about a sixteenth of it; 0 where not even one image does.

    Args:
        fits: tries a step with so many images.
        failed: a batch that did not fit.

    >>> largest_that_fits(lambda images: images <= 37, 128)
    36
    """
    low, high = 0, failed
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def try_step(step: Callable[[int], None], images: int, *, reserve: int, device: torch.device) -> bool:
    """Whether one step with so many images fits into the memory of a GPU.

    Args:
        step: forward and backward.
        images: of the micro-batch.
        reserve: bytes that must stay free for what the optimizer will yet ask for.
        device: the GPU.
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
    """What to change in a recipe.

    Args:
        batch_size: of the recipe, over all processes and micro-batches.
        processes: how many there are.
        accumulate: micro-batches of now.
        fitting: images that fit at once in one process.

    >>> advice(64, processes=1, accumulate=1, fitting=36)
    'train.batch_size=36 would fit, or train.accumulate=2 with batch_size=64 as it is'
    """
    if not fitting:
        return "not even one image fits: use smaller images (augment.size), a smaller network, or train.precision=bf16"
    each = batch_size // processes
    cuts = next(n for n in range(accumulate, each + 1) if each % n == 0 and each // n <= fitting)
    smaller = fitting * processes * accumulate
    return f"train.batch_size={smaller} would fit, or train.accumulate={cuts} with batch_size={batch_size} as it is"


def release_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
