"""CUDA graphs: work is captured once and replayed, so that the host does not launch its kernels one by one.

Work can be captured if it always launches the same kernels on the same memory. It must not read a result on the host,
and its random numbers must come from the device.
"""

import logging
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

logger = logging.getLogger(__name__)

Body = Callable[[], None]
SYNCHRONIZES = "called a synchronizing CUDA operation"  # torch's warning


class CannotCaptureError(Exception):
    """Work that cannot be captured; the message says why."""


@contextmanager
def synchronizations() -> Iterator[list[str]]:
    """Collect the places where the host waits for the device, as FILE:LINE. Other warnings pass through."""
    found: list[str] = []
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        caught.clear()  # torch announces that the mode is a prototype
        try:
            yield found
        finally:
            torch.cuda.set_sync_debug_mode(before)
    for warning in caught:
        if SYNCHRONIZES in str(warning.message):
            found.append(f"{warning.filename}:{warning.lineno}")
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


class Graphs:
    """Captures work of a device as CUDA graphs, on a stream of its own.

    Args:
        device: The GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)

    synchronizations = staticmethod(synchronizations)

    @contextmanager
    def warming_up(self) -> Iterator[None]:
        """Run work that will be captured, after what is queued already and before what follows."""
        current = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(current)
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:
            current.wait_stream(self._stream)

    def capture(self, bodies: Sequence[Body]) -> list[Body]:
        """Capture each body as a graph and return the functions that replay them. Nothing is computed.

        The graphs share their memory, so they must be replayed one after another, in the order of the bodies.

        Args:
            bodies: Functions that launch work. They must have run while `warming_up`.

        Raises:
            CannotCaptureError: The work cannot be captured.
        """
        before, current = _host_random_state(), torch.cuda.current_stream(self._stream.device)
        generator = torch.cuda.default_generators[self._stream.device_index]
        state = generator.clone_state()
        pool, replays = torch.cuda.graph_pool_handle(), []
        try:
            for body in bodies:
                graph = torch.cuda.CUDAGraph()
                # Other threads may allocate memory meanwhile.
                with (
                    _without_cached_casts(),
                    torch.cuda.graph(graph, pool=pool, stream=self._stream, capture_error_mode="thread_local"),
                ):
                    body()
                replays.append(graph.replay)
        except Exception as error:  # if it is no matter of the capture, running the body raises it again
            # A failed capture can leave its stream as the current one, and a generator that still waits for its end.
            torch.cuda.set_stream(current)
            torch.cuda.synchronize(self._stream.device)
            generator.graphsafe_set_state(state)
            raise CannotCaptureError(str(error).strip().split("\n")[0]) from error
        if _host_random_state() != before:
            raise CannotCaptureError("it draws random numbers on the host")
        return replays


class CapturedForward:
    """A function of a batch that is replayed as a CUDA graph; on a CPU, the function itself.

    The first calls run the function. Then it is captured, and a smaller batch is computed as the beginning of a larger
    one. If the function waits for the device, or cannot be captured, all calls run it. The weights of a network may
    change between calls, but must stay where they are in memory.

    Args:
        forward: Computes a tensor, or tuples of tensors, from a batch. Each row depends on one image alone.
    """

    CALLS = 2  # that run the function before it is captured; the second one looks for synchronizations

    def __init__(self, forward: Callable[[Tensor], Any]) -> None:
        self.forward = forward
        self._calls: Counter[Any] = Counter()
        self._captured: dict[Any, _CapturedBatch] = {}
        self._is_off = torch.distributed.is_available() and torch.distributed.is_initialized()

    def __call__(self, x: Tensor) -> Any:
        if self._is_off or not x.is_cuda:
            return self.forward(x)
        kind = (x.shape[1:], x.dtype, x.is_contiguous())
        captured = self._captured.get(kind)
        if captured is not None and len(x) <= captured.images:
            return captured(x)
        calls = (kind, len(x))
        self._calls[calls] += 1
        if self._calls[calls] == self.CALLS:
            return self._watched(x)
        if self._calls[calls] > self.CALLS and self._capture(kind, x):
            return self._captured[kind](x)
        return self.forward(x)

    def _watched(self, x: Tensor) -> Any:
        with synchronizations() as found:
            output = self.forward(x)
        if found:
            self._turn_off(f"it waits for the device at {found[0]}")
        elif not _is_rows(output, len(x)):
            self._turn_off("it does not return tensors with rows for every image")
        return output

    def _capture(self, kind: Any, x: Tensor) -> bool:
        try:
            self._captured[kind] = _CapturedBatch(self.forward, x)
        except CannotCaptureError as error:
            self._turn_off(str(error))
        return not self._is_off

    def _turn_off(self, reason: str) -> None:
        self._is_off = True
        logger.debug("the forward pass is not captured as a CUDA graph: %s", reason)


class _CapturedBatch:
    """A captured function of batches of up to so many images."""

    def __init__(self, forward: Callable[[Tensor], Any], x: Tensor) -> None:
        self._x, self.images, outputs = torch.empty_like(x), len(x), []
        graphs = Graphs(x.device)
        with graphs.warming_up():
            forward(x)
        self._x.copy_(x)  # a smaller batch leaves images of another one behind it
        (self._replay,) = graphs.capture([lambda: outputs.append(forward(self._x))])
        self._output = outputs[0]

    def __call__(self, x: Tensor) -> Any:
        self._x[: len(x)].copy_(x)
        self._replay()
        return self._rows(self._output, len(x))

    def _rows(self, output: Any, images: int) -> Any:
        """Copy the rows of the first images, since the next replay overwrites them."""
        if isinstance(output, tuple):
            return tuple(self._rows(each, images) for each in output)
        return output[: len(output) // self.images * images].clone()


def _is_rows(output: Any, images: int) -> bool:
    if type(output) is tuple:
        return all(_is_rows(each, images) for each in output)
    return isinstance(output, Tensor) and output.ndim > 0 and len(output) % images == 0


@contextmanager
def _without_cached_casts() -> Iterator[None]:
    """Keep apart the weights that autocast casts inside and outside of a graph, since it caches them."""
    torch.clear_autocast_cache()
    try:
        yield
    finally:
        torch.clear_autocast_cache()


def _host_random_state() -> tuple[Any, ...]:
    kind, numbers, *rest = np.random.get_state(legacy=True)
    return random.getstate(), kind, np.asarray(numbers).tobytes(), rest, torch.get_rng_state().numpy().tobytes()
