"""The scores of a network for a set of images, over all processes, in the order of the images."""

from collections.abc import Iterable
from contextlib import nullcontext

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn

from covpool.data.pipeline import Batch
from covpool.engine._devices import gathered


@torch.no_grad()
def scores(
    network: nn.Module, batches: Iterable[Batch], *, flip: bool = False, fabric: Fabric | None = None
) -> tuple[Tensor, Tensor]:
    """Logits (n, classes) and classes (n,) of all images, on the CPU.

    The logits of several crops (b, 10, 3, s, s) are averaged, and with `flip` those of the picture and its mirror
    image. The class of a picture that is unknown or could not be read is -1.

    Args:
        network: put into eval mode, and left in it.
        batches: of this process, `covpool.data.pipeline._batches.EvalBatches`.
        flip: average over the mirror image too.
        fabric: the processes and the precision it runs in; None = this process, float32.
    """
    network.eval()
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for batch in batches:
        with nullcontext() if fabric is None else fabric.autocast():
            logits = _mean_logits(network, batch.x, flip)
        found.append((logits, batch.y, batch.index.to(logits.device)))
    logits, targets, index = (torch.cat(parts) for parts in zip(*found, strict=True))
    if fabric is not None and fabric.world_size > 1:
        logits, targets, index = (gathered(fabric, t) for t in (logits, targets, index))
    order = index.argsort()[int((index < 0).sum()) :]  # what only filled up the processes stands first
    return logits[order].cpu(), targets[order].cpu()


def _mean_logits(network: nn.Module, x: Tensor, flip: bool) -> Tensor:
    crops = x.flatten(0, 1) if x.ndim == 5 else x
    logits: Tensor = network(crops).float()
    if flip:
        logits = (logits + network(crops.flip(-1)).float()) / 2
    return logits.unflatten(0, x.shape[:2]).mean(1) if x.ndim == 5 else logits
