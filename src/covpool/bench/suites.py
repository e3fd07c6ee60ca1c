"""The suites of the benchmark: which comparisons, at which shapes."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

import covpool
from covpool.bench.candidates import Comparison, Function, isqrt, mpn, operations
from covpool.bench.decompositions import decompositions
from covpool.bench.limits import copy_rate, matmul_rate, pool_shares
from covpool.bench.measure import count_launches, peak_memory, time_graph, time_in_turns
from covpool.bench.record import Record

Shape = tuple[int, int, int]  # b, n, c

ISQRT_SHAPES: dict[str, tuple[Shape, ...]] = {
    "cpu": ((16, 49, 256), (16, 100, 256), (16, 196, 256), (16, 784, 256)),
    "cuda": ((128, 196, 256), (128, 49, 256), (32, 784, 256), (128, 196, 128), (32, 196, 512)),
}
MPN_SHAPES: dict[str, tuple[Shape, ...]] = {
    "cpu": ((16, 196, 256), (16, 49, 256)),
    "cuda": ((128, 196, 256), (128, 49, 256)),
}
CURVE_SHAPES: dict[str, tuple[Shape, ...]] = {
    "cpu": tuple((16, 196, c) for c in (32, 64, 128, 256))
    + tuple((16, n, 128) for n in (16, 49, 100, 400, 784))
    + tuple((b, 196, 128) for b in (1, 4, 64)),
    "cuda": tuple((128, 196, c) for c in (64, 128, 256, 512))
    + tuple((128, n, 256) for n in (16, 49, 100, 400, 784))
    + tuple((b, 196, 256) for b in (1, 8, 32, 64, 256)),
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
    limit = matmul_rate(device) if device.type == "cuda" else None
    shapes = ISQRT_SHAPES[device.type]
    for shape in shapes:  # every compilation takes half a minute: one says enough
        comparison = isqrt(device.type, compiled=shape == shapes[0], dual=shape[1] <= shape[2])
        for record in compare("isqrt", comparison, shape, device, seconds, seed):
            if limit is not None and record.extra["device_ms"] is not None:
                rate = useful_flops(*shape) / record.extra["device_ms"] / 1e9
                record.extra |= {"tflops": rate, "share_of_limit": rate / limit, "limit_tflops": limit}
            yield record


def useful_flops(b: int, n: int, c: int, iterations: int = 5) -> float:
    """Arithmetic of a forward and backward in the smaller form, symmetric products counted by half."""
    order = min(n, c)
    chain = (3 * iterations - 3) * order**3  # half of 2 order^3 each
    return b * (4 * chain + 3 * n * c * c)  # value, then value and derivative; covariance by half and gradient


def _mpn_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    for shape in MPN_SHAPES[device.type]:
        yield from compare("mpn", mpn(), shape, device, seconds, seed)


def _operations_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    for name, comparison in operations().items():
        yield from compare(name, comparison, POOL_SHAPE[device.type], device, seconds, seed)


def _pools_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    shape = POOL_SHAPE[device.type]
    pools: dict[str, covpool.Pool] = {}
    for name in dict.fromkeys(["avg", *covpool.list_pools()]):
        torch.manual_seed(seed)
        pools[name] = covpool.create_pool(name, shape[-1]).to(device).eval()
    ways: dict[str, Function] = {**pools}
    oracles: dict[str, Function] = {name: deepcopy(pool).double() for name, pool in pools.items()}
    limits = (matmul_rate(device, torch.float32), copy_rate(device)) if device.type == "cuda" else None
    for record in compare("pools", Comparison(ways, oracles), shape, device, seconds, seed):
        if limits is not None:
            busy = record.extra["device_ms"] or record.median_ms
            record.extra |= pool_shares(pools[record.name], shape, busy, limits)
            record.extra |= {"limit_tflops": limits[0], "limit_gb_per_s": limits[1]}
        yield record


def compare(
    suite: str, comparison: Comparison, shape: Shape, device: torch.device, seconds: float, seed: int
) -> Iterator[Record]:
    """All ways of one comparison at one shape, forward and backward, in turns."""
    x = _features(shape, device, seed)
    oracles = {name: comparison.oracle_of(name) for name in comparison.ways}
    exact = {oracle: _exact(oracle, x, seed) for oracle in oracles.values()}
    gradients = {name: exact[oracle].upstream.to(x.dtype) for name, oracle in oracles.items()}
    calls = {name: _call(way, x, gradients[name]) for name, way in comparison.ways.items()}
    timings = time_in_turns(calls, device, seconds)
    yardstick = next(iter(timings.values())).median
    for name, way in comparison.ways.items():
        value, slope = _step(way, x, gradients[name])
        timing, truth = timings[name], exact[oracles[name]]
        yield Record(
            suite=suite,
            name=name,
            shape=shape,
            passes="forward+backward",
            median_ms=timing.median,
            p20_ms=timing.p20,
            p80_ms=timing.p80,
            ratio=yardstick / timing.median,
            value_error=_relative_error(value, truth.value),
            gradient_error=_relative_error(slope, truth.slope),
            extra=_device_figures(way, x, gradients[name], name not in comparison.not_captured)
            if device.type == "cuda"
            else {},
        )


@dataclass(frozen=True)
class _Exact:
    """A forward and backward in float64: the upstream gradient, the value, and the gradient of the features."""

    upstream: Tensor
    value: Tensor
    slope: Tensor


def _features(shape: Shape, device: torch.device, seed: int) -> Tensor:
    """ReLU features, as a network gives them."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).relu().to(device)


def _exact(oracle: Function, x: Tensor, seed: int) -> _Exact:
    with torch.no_grad():
        one = oracle(x[:1].double())
    generator = torch.Generator().manual_seed(seed + 1)
    upstream = torch.randn((x.shape[0], *one.shape[1:]), generator=generator).to(x.device).double()
    return _Exact(upstream, *_step(oracle, x.double(), upstream))


def _step(function: Function, x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    x = x.detach().requires_grad_()
    value = function(x)
    (slope,) = torch.autograd.grad(value, x, gradient)
    return value.detach(), slope


def _call(function: Function, x: Tensor, gradient: Tensor) -> Callable[[], object]:
    x = x.detach().clone().requires_grad_()
    return lambda: torch.autograd.grad(function(x), x, gradient)


def _device_figures(way: Function, x: Tensor, gradient: Tensor, capture: bool) -> dict[str, float | int | None]:
    """Device time under graph replay (inputs rotated through the cache), peak memory and launches."""
    call = _call(way, x, gradient)
    graph = time_graph([_call(way, x, gradient) for _ in range(3)]) if capture else None
    return {
        "device_ms": None if graph is None else graph.median,
        "peak_mib": peak_memory(call, x.device),
        "launches": count_launches(call, x.device),
    }


def _relative_error(value: Tensor, oracle: Tensor) -> float:
    return float((value.double() - oracle).norm() / oracle.norm())


def _curves_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    """Time against channels, positions and batch, one at a time."""
    ways = isqrt(device.type, compiled=False).ways
    names = ("autograd", "covpool tf32") if device.type == "cuda" else ("autograd", "covpool")
    comparison = Comparison({name: ways[name] for name in names}, ways["autograd"])
    for shape in CURVE_SHAPES[device.type]:
        yield from compare("curves", comparison, shape, device, seconds / 4, seed)


SUITES: dict[str, Callable[[torch.device, float, int], Iterator[Record]]] = {
    "isqrt": _isqrt_suite,
    "mpn": _mpn_suite,
    "operations": _operations_suite,
    "pools": _pools_suite,
    "decompositions": decompositions,
    "curves": _curves_suite,
}
