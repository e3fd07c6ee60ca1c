"""Inference: the one loop that runs a network over batches of images without gradients."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn

from covpool._progress import OnProgress
from covpool.data.pipeline import Batch, EvalBatches
from covpool.engine._devices import autocast, gathered
from covpool.engine._finite_outputs import refuse_non_finite
from covpool.recipe import Precision

Output = TypeVar("Output")


@dataclass(frozen=True, eq=False)
class Inferred(Generic[Output]):
    """The outputs for one batch.

    Attributes:
        batch: The batch that was run.
        outputs: The output for its images and, if requested, the output for the flipped images.
    """

    batch: Batch
    outputs: tuple[Output, ...]


@torch.no_grad()
def infer(
    network: nn.Module,
    batches: Iterable[Batch],
    forward: Callable[[Tensor], Output] | None = None,
    *,
    flip: bool = False,
    precision: Precision = "32",
) -> Iterator[Inferred[Any]]:
    """Run a network over batches without gradients, one result per batch. Images get the dtype of its weights.

    An output that is not finite raises an error that names the image and the first module with such a value.

    Args:
        network: The network. It is put in evaluation mode and stays in it.
        batches: The batches of this process, for example `covpool.data.pipeline.EvalBatches`.
        forward: What to compute from the images of a batch; by default the network itself.
        flip: Run the flipped images too.
        precision: Precision of the forward pass; "bf16" and "fp16" use autocast.

    >>> batch = Batch(torch.ones(2, 3, 4, 4), torch.zeros(2), torch.arange(2), torch.zeros(2).bool())
    >>> [found.outputs[0].shape for found in infer(nn.Flatten(), [batch])]
    [torch.Size([2, 48])]
    """
    network.eval()
    run = forward or network
    dtype = next((p.dtype for p in network.parameters() if p.is_floating_point()), torch.float32)
    for batch in batches:
        x = batch.x.to(dtype)
        views = (x, x.flip(-1)) if flip else (x,)
        with autocast(precision, batch.x.device):
            outputs = tuple(run(view) for view in views)
            refuse_non_finite(outputs, batch, network, run, views)
        yield Inferred(batch, outputs)


def infer_logits(
    network: nn.Module, batches: Iterable[Batch], *, flip: bool = False, precision: Precision = "32"
) -> Iterator[tuple[Batch, Tensor]]:
    """Yield each batch with its logits (b, classes) in float32, averaged over crops and flips.

    Args:
        network: The classifier. It is put in evaluation mode and stays in it.
        batches: The batches of this process; images are (b, 3, s, s), or (b, 10, 3, s, s) for ten crops.
        flip: Average over the flipped images too.
        precision: Precision of the forward pass.
    """

    def forward(x: Tensor) -> Tensor:
        logits: Tensor = network(x.flatten(0, 1) if x.ndim == 5 else x)
        return logits.float()

    for found in infer(network, batches, forward, flip=flip, precision=precision):
        logits = (found.outputs[0] + found.outputs[1]) / 2 if flip else found.outputs[0]
        x = found.batch.x
        yield found.batch, logits.unflatten(0, x.shape[:2]).mean(1) if x.ndim == 5 else logits


def compute_scores(
    network: nn.Module,
    batches: Iterable[Batch],
    *,
    flip: bool = False,
    precision: Precision = "32",
    fabric: Fabric | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute the logits (n, classes) and targets (n,) of all images, on the CPU and in the order of the images.

    The target of an image that could not be read, or whose class is unknown, is -1.

    Args:
        network: The classifier. It is put in evaluation mode and stays in it.
        batches: The batches of this process.
        flip: Average over the flipped images too.
        precision: Precision of the forward pass.
        fabric: Gathers the scores of all processes, each of which must call this function; None = one process.
    """
    found = [
        (logits, batch.y, batch.index.to(logits.device))
        for batch, logits in infer_logits(network, batches, flip=flip, precision=precision)
    ]
    logits, targets, index = (torch.cat(tensors) for tensors in zip(*found, strict=True))
    if fabric is not None and fabric.world_size > 1:
        logits, targets, index = (gathered(fabric, tensor) for tensor in (logits, targets, index))
    order = index.argsort()[int((index < 0).sum()) :]  # padding has index -1 and sorts first
    return logits[order].cpu(), targets[order].cpu()


def with_progress(batches: EvalBatches, what: str, on_progress: OnProgress) -> Iterator[Batch]:
    """Yield the batches, and report progress after each.

    Args:
        batches: The batches.
        what: What is being done, for the progress bar.
        on_progress: Receives the number of batches done and their total.
    """
    for done, batch in enumerate(batches, 1):
        yield batch
        on_progress(what, done, len(batches))


def select_rows(batches: Iterable[Batch], keep: Callable[[Batch], Tensor]) -> Iterator[Batch]:
    """Yield the batches with only the images for which `keep` gives True; batches that become empty are left out.

    Args:
        batches: The batches.
        keep: Gives a mask (b,) for a batch.
    """
    for batch in batches:
        mask = keep(batch)
        if mask.any():
            on_device, on_cpu = mask.to(batch.x.device), mask.cpu()
            kept = (batch.x[on_device], batch.y[on_device], batch.index[on_cpu], batch.broken[on_cpu])
            yield Batch(*kept, batch.paths)
