"""The suites of the benchmark: which comparisons, at which shapes."""

from collections.abc import Callable, Iterator
from copy import deepcopy

import torch
from torch import Tensor

import covpool
from covpool.bench.candidates import Comparison, Function, isqrt, operations
from covpool.bench.measure import count_launches, peak_memory, time_graph, time_in_turns
from covpool.bench.record import Record

Shape = tuple[int, int, int]  # b, n, c

ISQRT_SHAPES: dict[str, tuple[Shape, ...]] = {
    "cpu": ((16, 49, 256), (16, 100, 256), (16, 196, 256), (16, 784, 256)),
    "cuda": ((128, 196, 256), (128, 49, 256), (32, 784, 256), (128, 196, 128), (32, 196, 512)),
}
POOL_SHAPE: dict[str, Shape] = {"cpu": (16, 196, 128), "cuda": (128, 196, 256)}


def run_suite(suite: str, device: torch.device, seconds: float, seed: int = 0) -> Iterator[Record]:
    """Measure a suite, record by record.

    Args:
        suite: one of `SUITES`.
        device: where.
        seconds: about how long per shape.
        seed: of the inputs.
    """
    yield from SUITES[suite](device, seconds, seed)


def _isqrt_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    for shape in ISQRT_SHAPES[device.type]:
        yield from compare("isqrt", isqrt(), shape, device, seconds, seed)


def _operations_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    for name, comparison in operations().items():
        yield from compare(name, comparison, POOL_SHAPE[device.type], device, seconds, seed)


def _pools_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    shape = POOL_SHAPE[device.type]
    ways: dict[str, Function] = {}
    for name in covpool.list_pools():
        torch.manual_seed(seed)
        ways[name] = covpool.create_pool(name, shape[-1]).to(device).eval()
    for name, way in ways.items():
        oracle = deepcopy(way).double()  # type: ignore[attr-defined]
        comparison = Comparison({"avg": ways["avg"], name: way}, oracle)
        for record in compare("pools", comparison, shape, device, seconds / 4, seed):
            if record.name == name:
                yield record


def compare(
    suite: str, comparison: Comparison, shape: Shape, device: torch.device, seconds: float, seed: int
) -> Iterator[Record]:
    """All ways of one comparison at one shape, forward and backward, in turns."""
    x, gradient = _inputs(comparison.oracle, shape, device, seed)
    value64, gradient64 = _step(comparison.oracle, x.double(), gradient.double())
    calls = {name: _call(way, x, gradient) for name, way in comparison.ways.items()}
    timings = time_in_turns(calls, device, seconds)
    yardstick = next(iter(timings.values())).median
    for name, way in comparison.ways.items():
        value, slope = _step(way, x, gradient)
        timing = timings[name]
        yield Record(
            suite=suite,
            name=name,
            shape=shape,
            passes="forward+backward",
            median_ms=timing.median,
            p20_ms=timing.p20,
            p80_ms=timing.p80,
            ratio=yardstick / timing.median,
            value_error=_relative_error(value, value64),
            gradient_error=_relative_error(slope, gradient64),
            extra=_device_figures(way, x, gradient) if device.type == "cuda" else {},
        )


def _inputs(oracle: Function, shape: Shape, device: torch.device, seed: int) -> tuple[Tensor, Tensor]:
    """ReLU features, as a network gives them, and an upstream gradient."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator).relu().to(device)
    with torch.no_grad():
        out = oracle(x[:1].double())
    gradient = torch.randn((shape[0], *out.shape[1:]), generator=generator).to(device)
    return x, gradient


def _step(function: Function, x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    x = x.detach().requires_grad_()
    value = function(x)
    (slope,) = torch.autograd.grad(value, x, gradient)
    return value.detach(), slope


def _call(function: Function, x: Tensor, gradient: Tensor) -> Callable[[], object]:
    x = x.detach().clone().requires_grad_()
    return lambda: torch.autograd.grad(function(x), x, gradient)


def _device_figures(way: Function, x: Tensor, gradient: Tensor) -> dict[str, float | int | None]:
    """Device time under graph replay (inputs rotated through the cache), peak memory and launches."""
    call = _call(way, x, gradient)
    graph = time_graph([_call(way, x, gradient) for _ in range(3)])
    return {
        "device_ms": None if graph is None else graph.median,
        "peak_mib": peak_memory(call, x.device),
        "launches": count_launches(call, x.device),
    }


def _relative_error(value: Tensor, oracle: Tensor) -> float:
    return float((value.double() - oracle).norm() / oracle.norm())


SUITES: dict[str, Callable[[torch.device, float, int], Iterator[Record]]] = {
    "isqrt": _isqrt_suite,
    "operations": _operations_suite,
    "pools": _pools_suite,
}
