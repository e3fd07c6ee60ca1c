"""The training step as a CUDA graph: whether it can be captured, and how it is replayed."""

import logging
from collections.abc import Callable

import torch
from lightning_fabric import Fabric
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.engine._devices import is_sharded
from covpool.engine._graphs import CannotCaptureError, Graphs
from covpool.engine.training._optimizer import can_be_captured
from covpool.recipe import Train

logger = logging.getLogger(__name__)

WARM_UP = 2  # steps before the capture; the last of them looks for places where the host waits for the device


def why_not_captured(fabric: Fabric, settings: Train, optimizer: torch.optim.Optimizer | None = None) -> str:
    """Why a step cannot be captured, as far as is known before it runs; empty if nothing speaks against it.

    Args:
        fabric: Devices, precision and strategy.
        settings: The table `train` of the recipe.
        optimizer: The optimizer, if there is one already.
    """
    if fabric.device.type != "cuda":
        return f"a CUDA graph needs an NVIDIA GPU, and this training runs on {fabric.device.type}"
    if is_sharded(fabric) or fabric.world_size > 1:
        return "several processes exchange their gradients"
    if settings.precision == "fp16":
        return "the loss scaling of fp16 decides on the host whether to skip a step (train.precision=bf16 has none)"
    if optimizer is not None and not can_be_captured(optimizer):
        return f"the optimizer {type(optimizer).__name__} computes part of its step on the host"
    return ""


class StepRunner:
    """Runs the two halves of a step, the backward passes and the update: at first as they are, then as CUDA graphs.

    The first steps are ordinary ones. Capturing computes nothing, so weights, batch-norm statistics, momentum, averages
    and meters do not change.

    Args:
        backward: Forward and backward of a micro-batch (x, y). Gradients are added to those that exist.
        update: The update of the weights from their gradients, which it clears.
        reset: Clears the gradients and whatever else a failed capture may leave.
        graphs: Captures the step; None = never.
        settings: The table `train` of the recipe.
    """

    def __init__(
        self,
        backward: Callable[[Tensor, Tensor], None],
        update: Callable[[], None],
        reset: Callable[[], None],
        graphs: Graphs | None,
        settings: Train,
    ) -> None:
        self._backward, self._update, self._reset = backward, update, reset
        self._graphs, self._settings = graphs, settings
        self._steps = 0
        self._waits: list[str] = []  # places where the host waited for the device
        self._replays: list[Callable[[], None]] = []
        self._inputs: tuple[Tensor, Tensor]  # of the graphs; before the capture, of the last micro-batch

    @property
    def is_captured(self) -> bool:
        """Whether steps are replayed."""
        return bool(self._replays)

    def begin(self) -> None:
        """Begin a step."""
        self._steps += 1
        if self._graphs is not None and self._steps == WARM_UP + 1:
            self._capture(self._graphs)

    def backward(self, number: int, x: Tensor, y: Tensor) -> None:
        """Run forward and backward of the micro-batch with this number in its step."""
        if self.is_captured:
            for mine, given in zip(self._inputs, (x, y), strict=True):
                mine.copy_(given)
            self._replays[min(number, 1)]()
        else:
            self._run(lambda: self._backward(x, y))
            self._inputs = x, y

    def update(self) -> None:
        """Update the weights."""
        if self.is_captured:
            self._replays[-1]()
        else:
            self._run(self._update)

    def close(self) -> None:
        """Free the graphs and the gradients."""
        self._replays.clear()
        self._reset()

    def _run(self, work: Callable[[], None]) -> None:
        if self._graphs is None:
            work()
        elif self._steps < WARM_UP:
            with self._graphs.warming_up():
                work()
        else:
            with self._graphs.warming_up(), self._graphs.synchronizations() as found:
                work()
            self._waits += found

    def _capture(self, graphs: Graphs) -> None:
        x, y = self._inputs
        layout = torch.channels_last if self._settings.channels_last else torch.contiguous_format
        self._inputs = torch.empty_like(x, memory_format=layout), torch.empty_like(y)
        # The first micro-batch creates the gradients, and the others add to them.
        micro_batches = [lambda: self._backward(*self._inputs)] * min(self._settings.accumulate, 2)
        try:
            if self._waits:
                raise CannotCaptureError(f"the host waits for the device at {self._waits[0]}")
            self._replays = graphs.capture([*micro_batches, self._update])
        except CannotCaptureError as error:
            self._graphs = None
            self._reset()
            report_not_captured(self._settings, str(error))


def report_not_captured(settings: Train, reason: str, *, is_usual: bool = False) -> None:
    """Log why the step is not captured, or refuse a recipe that requires it.

    Args:
        settings: The table `train` of the recipe.
        reason: Why the step cannot be captured.
        is_usual: Whether this is nothing to tell the user, as on a CPU.
    """
    if settings.graph is True:
        raise CovpoolError(f"`train.graph` = true, but the step cannot be captured ({reason}): set train.graph=auto")
    level = logging.INFO if is_usual else logging.WARNING
    logger.log(level, "the training step is not captured as a CUDA graph, which would be faster: %s", reason)
