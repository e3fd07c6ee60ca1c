"""Starting a kernel again as it was launched before, but at other addresses, past most of Triton's Python."""

import copy
from collections.abc import Callable
from types import NoneType
from typing import Any, NamedTuple

import triton

# Releases of Triton whose launcher takes these arguments. In others the compiled kernel's own method is called, which
# takes 3 microseconds longer.
DIRECT = (3, 4) <= tuple(int(part) for part in triton.__version__.split(".")[:2]) <= (3, 9)

STREAM = object()  # stands for the stream among the arguments of a launch


class StartedLaunch(NamedTuple):
    """A launch as it was made. `compiled` is None where Triton interprets the kernel."""

    kernel: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    constants: dict[str, Any]
    compiled: Any


Call = tuple[Callable[..., object], tuple[Any, ...]]


def call_again(started: StartedLaunch) -> Call:
    """A function that starts the kernel, and all of its arguments, with `STREAM` for the stream.

    Where Triton compiled the kernel, the function takes addresses in place of tensors.
    """
    _, grid, args, constants, compiled = started
    if compiled is None:
        again = started.kernel[grid]
        return lambda stream, *args: again(*args, **constants), (STREAM, *args)
    args += tuple(constants[name] for name in started.kernel.arg_names[len(args) :])
    grid = (*grid, 1, 1)[:3]
    if not DIRECT:
        start = compiled[grid]
        return lambda stream, *args: start(*args, stream=stream), (STREAM, *args)
    run = compiled.run  # loads the kernel, so it comes first
    return _inner_call(run, (*grid, STREAM, compiled.function, compiled.packed_metadata, None, None, None, *args))


def _inner_call(launcher: Any, args: tuple[Any, ...]) -> Call:
    """What a launcher written in Python calls itself, if it only adds constants to its arguments; else the launcher.

    A launcher that allocates scratch memory for the kernel does more than that.
    """
    if getattr(launcher, "global_scratch_size", 1) or getattr(launcher, "profile_scratch_size", 0):
        return launcher, args
    calls: list[tuple[Any, ...]] = []
    observed = copy.copy(launcher)
    observed.launch = lambda *inner: calls.append(inner)
    observed(*args)
    (inner,) = calls
    own = {id(value) for value in args}
    adds_constants = all(id(value) in own or isinstance(value, int | NoneType) for value in inner)
    return (launcher.launch, inner) if adds_constants else (launcher, args)
