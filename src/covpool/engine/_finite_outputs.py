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
            if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or torch.isfinite(tensor).all():
                continue
            of_image = torch.isfinite(tensor).view(len(batch.index), -1).all(1).cpu()
            bad = (~of_image & readable).nonzero().flatten().tolist()
            if bad:
                number = int(batch.index[bad[0]])
                name = f"image {number}" if batch.paths is None else str(batch.paths[number])
                raise CovpoolError(
                    f"the network gives NaN or inf for {name}: {_first_module(network, run, view[bad[:1]])}: {REMEDY}"
                )


def _first_module(network: nn.Module, run: Callable[[Tensor], Any], x: Tensor) -> str:
    """Run an image again and say in which module the first such value appears."""
    try:
        with check_finite(network):
            run(x)
    except NonFiniteError as error:
        return str(error)
    return "alone, the image gives finite values"
