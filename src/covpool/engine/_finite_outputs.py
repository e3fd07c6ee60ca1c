"""Outputs of a network that are not finite: an error that names the image and the module."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from covpool._errors import CovpoolError
from covpool.data.pipeline import Batch
from covpool.diagnostics import NonFiniteError, check_finite

REMEDY = "check the weights; if a lower precision overflows, use float32"


def start_finite_check(outputs: Iterable[Any]) -> Callable[[], bool]:
    """Start to check that all outputs are finite. The returned function waits for the answer, and for nothing later.

    Args:
        outputs: Tensors, or tuples, lists or dicts of them.
    """
    flags = [torch.isfinite(tensor).all() for tensor in tree_leaves(list(outputs)) if _has_fractions(tensor)]
    if not any(flag.is_cuda for flag in flags):
        return lambda: all(map(bool, flags))
    answer = torch.empty(len(flags), dtype=torch.bool, pin_memory=True)
    answer.copy_(torch.stack(flags), non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record()

    def is_finite() -> bool:
        arrived.synchronize()
        return bool(answer.all())

    return is_finite


def refuse_non_finite(
    outputs: Iterable[Any], batch: Batch, network: nn.Module, run: Callable[[Tensor], Any], views: Iterable[Tensor]
) -> None:
    """Raise an error if an output for a readable image is NaN or inf.

    Args:
        outputs: What the network computed, one output per view: tensors whose rows belong to the images, in order.
        batch: The images.
        network: The network.
        run: What was computed from a view.
        views: The images, and perhaps the flipped images.
    """
    readable = (batch.index >= 0) & ~batch.broken
    for output, view in zip(outputs, views, strict=True):
        for tensor in tree_leaves(output):
            if not _has_fractions(tensor) or torch.isfinite(tensor).all():
                continue
            of_image = torch.isfinite(tensor).view(len(batch.index), -1).all(1).cpu()
            bad = (~of_image & readable).nonzero().flatten().tolist()
            if bad:
                number = int(batch.index[bad[0]])
                name = f"image {number}" if batch.paths is None else str(batch.paths[number])
                raise CovpoolError(
                    f"the network gives NaN or inf for {name}: {_first_module(network, run, view[bad[:1]])}: {REMEDY}"
                )


def _has_fractions(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _first_module(network: nn.Module, run: Callable[[Tensor], Any], x: Tensor) -> str:
    """Run an image again and say in which module the first such value appears."""
    try:
        with check_finite(network):
            run(x)
    except NonFiniteError as error:
        return str(error)
    return "alone, the image gives finite values"
