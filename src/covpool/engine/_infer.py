"""Inference: the one loop that runs a network over batches of images without gradients."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from covpool._progress import OnProgress
from covpool.data.pipeline import Batch, EvalBatches
from covpool.engine._devices import autocast, gathered, reusing_memory
from covpool.engine._finite_outputs import refuse_non_finite, start_finite_check
from covpool.engine._graphs import CapturedForward
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
    On a GPU, batches of the same shape are replayed as a CUDA graph where that works.

    Args:
        network: The network. It is put in evaluation mode and stays in it.
        batches: The batches of this process, for example `covpool.data.pipeline.EvalBatches`.
        forward: What to compute from the images of a batch; by default the network itself. A `CapturedForward` keeps
            its graphs for further calls.
        flip: Run the flipped images too.
        precision: Precision of the forward pass; "bf16" and "fp16" use autocast.

    >>> batch = Batch(torch.ones(2, 3, 4, 4), torch.zeros(2), torch.arange(2), torch.zeros(2).bool())
    >>> [found.outputs[0].shape for found in infer(nn.Flatten(), [batch])]
    [torch.Size([2, 48])]
    """
    network.eval()
    parameter = next(network.parameters(), None)
    with reusing_memory("cpu" if parameter is None else parameter.device):
        yield from _infer(network, batches, forward, flip=flip, precision=precision)


def _infer(
    network: nn.Module,
    batches: Iterable[Batch],
    forward: Callable[[Tensor], Output] | None,
    *,
    flip: bool,
    precision: Precision,
) -> Iterator[Inferred[Any]]:
    run = forward if isinstance(forward, CapturedForward) else CapturedForward(forward or network)
    dtype = next((p.dtype for p in network.parameters() if p.is_floating_point()), torch.float32)
    before: _StartedBatch | None = None
    for batch in batches:
        x = batch.x.to(dtype)
        if x.device.type == "cpu" and x.ndim == 4:  # in this format torch's convolutions are faster on a CPU
            x = x.contiguous(memory_format=torch.channels_last)
        views = (x, x.flip(-1)) if flip else (x,)
        with autocast(precision, x.device):
            outputs = tuple(run(view) for view in views)
        started = _StartedBatch(batch, views, outputs, start_finite_check(outputs))
        if before is not None:
            yield before.checked(network, run.forward, precision)
        before = started
    if before is not None:
        yield before.checked(network, run.forward, precision)


@dataclass(frozen=True, eq=False)
class _StartedBatch:
    """The work on one batch. The device begins the next one before this one is checked, so it never waits."""

    batch: Batch
    views: tuple[Tensor, ...]
    outputs: tuple[Any, ...]
    is_finite: Callable[[], bool]

    def checked(self, network: nn.Module, forward: Callable[[Tensor], Any], precision: Precision) -> Inferred[Any]:
        if not self.is_finite():
            with autocast(precision, self.batch.x.device):
                refuse_non_finite(self.outputs, self.batch, network, forward, self.views)
        return Inferred(self.batch, self.outputs)


def infer_logits(
    network: nn.Module,
    batches: Iterable[Batch],
    *,
    flip: bool = False,
    precision: Precision = "32",
    forward: CapturedForward | None = None,
) -> Iterator[tuple[Batch, Tensor]]:
    """Yield each batch with its logits (b, classes) in float32, averaged over crops and flips.

    Args:
        network: The classifier. It is put in evaluation mode and stays in it.
        batches: The batches of this process; images are (b, 3, s, s), or (b, 10, 3, s, s) for ten crops.
        flip: Average over the flipped images too.
        precision: Precision of the forward pass.
        forward: From `capture_logits`, to keep its CUDA graphs for further calls.
    """
    forward = forward or capture_logits(network)
    for found in infer(network, batches, forward, flip=flip, precision=precision):
        logits = (found.outputs[0] + found.outputs[1]) / 2 if flip else found.outputs[0]
        x = found.batch.x
        yield found.batch, logits.unflatten(0, x.shape[:2]).mean(1) if x.ndim == 5 else logits


def capture_logits(network: nn.Module) -> CapturedForward:
    """The forward pass of a classifier to logits in float32. Its weights must stay where they are in memory."""

    def forward(x: Tensor) -> Tensor:
        logits: Tensor = network(x.flatten(0, 1) if x.ndim == 5 else x)
        return logits.float()

    return CapturedForward(forward)


def compute_scores(
    network: nn.Module,
    batches: Iterable[Batch],
    *,
    flip: bool = False,
    precision: Precision = "32",
    fabric: Fabric | None = None,
    forward: CapturedForward | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute the logits (n, classes) and targets (n,) of all images, on the CPU and in the order of the images.

    The target of an image that could not be read, or whose class is unknown, is -1.

    Args:
        network: The classifier. It is put in evaluation mode and stays in it.
        batches: The batches of this process.
        flip: Average over the flipped images too.
        precision: Precision of the forward pass.
        fabric: Gathers the scores of all processes, each of which must call this function; None = one process.
        forward: From `capture_logits`, to keep its CUDA graphs for further calls.
    """
    found = [
        (logits, batch.y, batch.index)
        for batch, logits in infer_logits(network, batches, flip=flip, precision=precision, forward=forward)
    ]
    logits, targets, index = (torch.cat(tensors) for tensors in zip(*found, strict=True))
    if fabric is not None and fabric.world_size > 1:
        logits, targets, index = (gathered(fabric, tensor) for tensor in (logits, targets, index.to(logits.device)))
    logits, targets, index = logits.cpu(), targets.cpu(), index.cpu()
    order = index.argsort()[int((index < 0).sum()) :]  # padding has index -1 and sorts first
    return logits[order], targets[order]


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
        if mask.all():
            yield batch
        elif mask.any():
            on_device, on_cpu = mask.to(batch.x.device), mask.cpu()
            kept = (batch.x[on_device], batch.y[on_device], batch.index[on_cpu], batch.broken[on_cpu])
            yield Batch(*kept, batch.paths)
