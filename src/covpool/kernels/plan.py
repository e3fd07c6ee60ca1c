"""Launches that are prepared once for every combination of shapes, layouts and options.

Launching a Triton kernel from Python takes longer than many of our kernels run. The first call of a `Planned` function
therefore records its launches: the compiled kernels with their arguments, and a place in one workspace for every
intermediate tensor. Further calls allocate the outputs and the workspace, and repeat the launches at new addresses.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.runtime import driver

ALIGNMENT = 256  # bytes; Triton compiles kernels for addresses that are multiples of 16
MOST_PLANS = 256  # of one function; the oldest is dropped
# Releases of Triton whose launcher takes these arguments. In others the compiled kernel's own method is called, which
# takes 3 microseconds longer.
DIRECT = (3, 4) <= tuple(int(part) for part in triton.__version__.split(".")[:2]) <= (3, 9)


class StartedLaunch(NamedTuple):
    """A launch as it was made. `compiled` is None where Triton interprets the kernel."""

    kernel: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    constants: dict[str, Any]
    compiled: Any


class Address(NamedTuple):
    """An argument that differs from call to call: `offset` bytes into one of the tensors of the call."""

    position: int
    source: int  # inputs first, then outputs, then the workspace
    offset: int
    dtype: torch.dtype


class Launch(NamedTuple):
    """A launch to be repeated: its arguments, for a compiled kernel with its constants, and those to be filled in."""

    started: StartedLaunch
    args: list[Any]
    addresses: tuple[Address, ...]


class Block(NamedTuple):
    """Memory that is needed from one launch to another, both included."""

    first: int
    last: int
    size: int


class _Recording(threading.local):
    launches: list[StartedLaunch] | None = None


_recording = _Recording()


def launch_kernel(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Launch a kernel. While a planned function is recorded, keep the launch."""
    compiled = kernel[grid](*args, **constants)
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

    def __call__(self, tensors: tuple[Tensor | None, ...], *options: Any) -> tuple[Tensor, ...]:
        like = tensors[0]
        assert like is not None
        if like.is_cuda and like.device.index != torch.cuda.current_device():
            with torch.cuda.device(like.device):
                return self(tensors, *options)
        key = (options, *[None if t is None else _layout(t) for t in tensors])
        plan = self.plans.get(key)
        return self._record(key, tensors, options) if plan is None else plan.repeat(tensors)

    def _record(self, key: Any, tensors: tuple[Tensor | None, ...], options: tuple[Any, ...]) -> tuple[Tensor, ...]:
        outer, _recording.launches = _recording.launches, []
        try:
            outputs = self.function(*tensors, *options)
            if all(t.numel() for t in outputs):
                if len(self.plans) >= MOST_PLANS:
                    self.plans.pop(next(iter(self.plans)), None)
                self.plans[key] = Plan(_recording.launches, tensors, outputs)
        finally:
            _recording.launches = outer
        return outputs


def _layout(t: Tensor) -> tuple[Any, ...]:
    """All that Triton's choice of a compiled kernel and our own choices may depend on."""
    return t.dtype, t.device, t.shape, t.stride(), t.data_ptr() % 16


class Plan:
    """The launches of one call, to be repeated with other tensors of the same layout."""

    def __init__(
        self, launches: list[StartedLaunch], inputs: tuple[Tensor | None, ...], outputs: tuple[Tensor, ...]
    ) -> None:
        self.outputs = [(t.shape, t.stride(), t.dtype) for t in outputs]
        sources = {id(t): i for i, t in enumerate((*inputs, *outputs)) if t is not None}
        known = {_memory(t) for t in (*inputs, *outputs) if t is not None}
        blocks: dict[int, Block] = {}
        for index, started in enumerate(launches):
            for t in started.args:
                if not isinstance(t, Tensor) or not t.numel() or id(t) in sources:
                    continue
                memory = _memory(t)
                assert memory not in known, "a planned function passes its inputs and outputs to kernels as they are"
                first = blocks[memory].first if memory in blocks else index
                blocks[memory] = Block(first, index, t.untyped_storage().nbytes())
        places = arrange(list(blocks.values()))
        offsets = dict(zip(blocks, places, strict=True))
        ends = [place + block.size for place, block in zip(places, blocks.values(), strict=True)]
        self.bytes = -(-max(ends, default=0) // ALIGNMENT) * ALIGNMENT
        workspace = len(inputs) + len(outputs)
        self.launches = [_prepared(started, sources, offsets, workspace) for started in launches]
        self.starters: list[Callable[..., None] | None] = []  # made when the plan is first used

    def repeat(self, tensors: tuple[Tensor | None, ...]) -> tuple[Tensor, ...]:
        like = tensors[0]
        assert like is not None
        outputs = tuple(like.new_empty_strided(size, stride, dtype=dtype) for size, stride, dtype in self.outputs)
        workspace = like.new_empty(self.bytes, dtype=torch.uint8)
        sources = (*tensors, *outputs, workspace)
        bases = [0 if t is None else t.data_ptr() for t in sources]
        stream = driver.active.get_current_stream(like.device.index) if like.is_cuda else None
        self.starters = self.starters or [_starter(launch.started) for launch in self.launches]
        for launch, starter in zip(self.launches, self.starters, strict=True):
            if starter is None:
                _start_by_triton(launch, sources)
                continue
            args = launch.args.copy()
            for position, source, offset, _ in launch.addresses:
                args[position] = bases[source] + offset
            starter(*args, stream=stream)
        return outputs


def arrange(blocks: Sequence[Block]) -> list[int]:
    """Offsets of blocks in one workspace. Blocks that are needed at different times may share memory.

    >>> arrange([Block(0, 1, 256), Block(1, 2, 1024), Block(2, 2, 256)])
    [1024, 0, 1024]
    """
    offsets = [0] * len(blocks)
    placed: list[int] = []
    for i in sorted(range(len(blocks)), key=lambda i: -blocks[i].size):
        block = blocks[i]
        for j in sorted(placed, key=lambda j: offsets[j]):
            other = blocks[j]
            if block.first <= other.last and other.first <= block.last and offsets[j] < offsets[i] + block.size:
                offsets[i] = max(offsets[i], -(-(offsets[j] + other.size) // ALIGNMENT) * ALIGNMENT)
        placed.append(i)
    return offsets


def _memory(t: Tensor) -> int:
    """The address of a tensor's storage."""
    return t.untyped_storage().data_ptr()


def _prepared(started: StartedLaunch, sources: dict[int, int], offsets: dict[int, int], workspace: int) -> Launch:
    args, addresses = list(started.args), []
    for position, value in enumerate(started.args):
        if isinstance(value, Tensor) and value.numel():  # an empty tensor has no address
            args[position], memory = None, _memory(value)
            place = (
                (sources[id(value)], 0)
                if id(value) in sources
                else (workspace, offsets[memory] + value.data_ptr() - memory)
            )
            addresses.append(Address(position, *place, value.dtype))
    started = started._replace(args=tuple(args))
    if started.compiled is not None:
        args += [started.constants[name] for name in started.kernel.arg_names[len(args) :]]
    return Launch(started, args, tuple(addresses))


def _starter(started: StartedLaunch) -> Callable[..., None] | None:
    """A function that starts a compiled kernel on a stream, given all of its arguments."""
    if started.compiled is None:
        return None
    grid = (*started.grid, 1, 1)[:3]
    if not DIRECT:
        start: Callable[..., None] = started.compiled[grid]
        return start
    run = started.compiled.run  # loads the kernel, so it comes first
    rest = (started.compiled.function, started.compiled.packed_metadata, None, None, None)

    def start_directly(*args: Any, stream: int) -> None:
        run(*grid, stream, *rest, *args)

    return start_directly


def _start_by_triton(launch: Launch, sources: tuple[Tensor | None, ...]) -> None:
    """Launch as the first time, with views of the workspace as arguments."""
    args = list(launch.started.args)
    for position, source, offset, dtype in launch.addresses:
        t = sources[source]
        assert t is not None
        is_workspace = source == len(sources) - 1
        args[position] = t[offset:].view(dtype) if is_workspace else t
    launch.started.kernel[launch.started.grid](*args, **launch.started.constants)
