"""Launches that are prepared once for every combination of shapes, layouts and options.

Launching a Triton kernel from Python takes longer than many of our kernels run. The first call of a `Planned` function
therefore records its launches: the compiled kernels with their arguments, and a place in one workspace for every
intermediate tensor. Further calls allocate the outputs and the workspace, and repeat the launches at new addresses.
"""

import threading
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from triton.runtime import driver

from covpool.kernels.restart import STREAM, StartedLaunch, call_again
from covpool.kernels.workspace import Workspace, has_address

MOST_PLANS = 256  # of one function; the oldest is dropped

# Private to torch. The public function first finds out, in Python, whether CUDA is initialized.
_current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)


class Place(NamedTuple):
    """Memory that differs from call to call: `offset` bytes into one of the tensors of the call."""

    source: int  # inputs first, then outputs, then the workspace
    offset: int
    dtype: torch.dtype


class Launch(NamedTuple):
    """A launch to be repeated: a function, and what picks its arguments from the values of a call."""

    start: Callable[..., object]
    pick: Callable[[list[Any]], tuple[Any, ...]]


class _Recording(threading.local):
    launches: list[StartedLaunch] | None = None


_recording = _Recording()


def launch_kernel(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Launch a kernel. While a planned function is recorded, keep the launch."""
    compiled = kernel[grid](*args, enable_fp_fusion=True, **constants)  # Triton 3.9 warns if this is left open
    if _recording.launches is not None:
        _recording.launches.append(StartedLaunch(kernel, grid, args, constants, compiled))


class Planned:
    """A function that allocates tensors and starts kernels, prepared once for each kind of arguments.

    Args:
        function: Takes tensors or None, then hashable options, and returns new tensors as a tuple. It must do nothing
            with tensors but allocate them and pass them to `launch_kernel`.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        self.function = function
        self.plans: dict[Any, Plan] = {}

    def __call__(
        self, tensors: tuple[Tensor | None, ...], *options: Any, outputs: int | None = None
    ) -> tuple[Tensor, ...]:
        """Call the function.

        Args:
            tensors: Its tensors.
            options: Its options.
            outputs: Number of results that are needed; by default all. The others take room in the workspace only.
        """
        like = tensors[0]
        assert like is not None
        if like.is_cuda and like.get_device() != _current_device():
            with torch.cuda.device(like.device):
                return self(tensors, *options, outputs=outputs)
        # Besides the options, all that Triton's choice of a compiled kernel and our own choices may depend on.
        kind: list[Any] = [options, outputs]
        addresses = []
        for t in tensors:
            if t is None:
                kind.append(None)
                addresses.append(0)
            elif t.is_neg():  # torch keeps the sign of such a view outside of the memory that kernels see
                resolved = tuple(None if t is None else t.resolve_neg() for t in tensors)
                return self(resolved, *options, outputs=outputs)
            else:
                address = t.data_ptr()
                kind += (t.dtype, t.device, t.shape, t.stride(), address % 16)
                addresses.append(address)
        key = tuple(kind)
        plan = self.plans.get(key)
        return self._record(key, tensors) if plan is None else plan.repeat(tensors, addresses)

    def _record(self, key: tuple[Any, ...], tensors: tuple[Tensor | None, ...]) -> tuple[Tensor, ...]:
        options, needed = key[:2]
        tensors = _distinct(tensors)
        outer, _recording.launches = _recording.launches, []
        try:
            outputs = self.function(*tensors, *options)[:needed]
            if all(t.numel() for t in outputs):
                if len(self.plans) >= MOST_PLANS:
                    self.plans.pop(next(iter(self.plans)), None)
                self.plans[key] = Plan(_recording.launches, tensors, outputs)
        finally:
            _recording.launches = outer
        return outputs


def _distinct(tensors: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """The same tensors, each an object of its own, by which a plan tells its inputs apart."""
    first = {id(t): i for i, t in reversed(list(enumerate(tensors)))}
    return tuple(t if t is None or first[id(t)] == i else t.detach() for i, t in enumerate(tensors))


class Plan:
    """The launches of one call, to be repeated with other tensors of the same layout.

    The values of a call are the stream, the address of every place, and the arguments that are always the same. Each
    launch picks its arguments from them.
    """

    def __init__(
        self, launches: list[StartedLaunch], inputs: tuple[Tensor | None, ...], outputs: tuple[Tensor, ...]
    ) -> None:
        like = inputs[0]
        assert like is not None
        self.outputs = [(t.shape, t.stride(), t.dtype) for t in outputs]
        self.device = like.get_device()
        self.stream_of = driver.active.get_current_stream if like.is_cuda else None
        self.interpreted = any(started.compiled is None for started in launches)
        known = (*inputs, *outputs)
        workspace = Workspace([started.args for started in launches], known)
        self.bytes = workspace.bytes
        sources = {id(t): i for i, t in enumerate(known) if t is not None}

        def place(t: Tensor) -> Place:
            if id(t) in sources:
                return Place(sources[id(t)], 0, t.dtype)
            return Place(len(known), workspace.offset(t), t.dtype)

        self.kernels = [started.compiled for started in launches]  # Triton unloads a kernel that nobody holds
        calls = [call_again(started) for started in launches]
        places = dict.fromkeys(place(value) for _, args in calls for value in args if has_address(value))
        indices = {one: 1 + i for i, one in enumerate(places)}
        self.places, self.same = list(places), list[Any]()

        def index(value: Any) -> int:
            if value is STREAM:
                return 0
            if has_address(value):
                return indices[place(value)]
            self.same.append(value)
            return len(indices) + len(self.same)

        self.launches = [Launch(start, itemgetter(*map(index, args))) for start, args in calls]

    def repeat(self, tensors: tuple[Tensor | None, ...], addresses: list[int]) -> tuple[Tensor, ...]:
        """Start the launches.

        Args:
            tensors: Inputs.
            addresses: Their addresses, 0 for None.
        """
        like = tensors[0]
        assert like is not None
        outputs = tuple([like.new_empty_strided(size, stride, dtype=dtype) for size, stride, dtype in self.outputs])
        workspace = like.new_empty(self.bytes, dtype=torch.uint8)
        stream = None if self.stream_of is None else self.stream_of(self.device)
        if self.interpreted:
            values = [stream, *self._views((*tensors, *outputs), workspace), *self.same]
        else:
            bases = [*addresses, *[t.data_ptr() for t in outputs], workspace.data_ptr()]
            values = [stream, *[bases[source] + offset for source, offset, _ in self.places], *self.same]
        for start, pick in self.launches:
            start(*pick(values))
        return outputs

    def _views(self, tensors: tuple[Tensor | None, ...], workspace: Tensor) -> list[Tensor | None]:
        """Tensors in place of addresses, which the interpreter takes."""
        known = range(len(tensors))
        return [
            tensors[source] if source in known else workspace[offset:].view(dtype)
            for source, offset, dtype in self.places
        ]
