"""All ways of one comparison at one shape: times in turns, errors against float64, figures of the device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool.bench._candidates import Comparison, Function
from covpool.bench._measure import count_launches, peak_memory, time_graph, time_interleaved
from covpool.bench._record import Record

Shape = tuple[int, int, int]  # b, n, c


def compare(
    suite: str, comparison: Comparison, shape: Shape, device: torch.device, seconds: float, seed: int
) -> Iterator[Record]:
    """All ways of one comparison at one shape, forward and backward, in turns."""
    x = features(shape, device, seed)
    oracles = {name: comparison.oracle_of(name) for name in comparison.ways}
    exact = {oracle: _exact(oracle, x, seed) for oracle in oracles.values()}
    gradients = {name: exact[oracle].upstream.to(x.dtype) for name, oracle in oracles.items()}
    calls = {name: _call(way, x, gradients[name]) for name, way in comparison.ways.items()}
    timings = time_interleaved(calls, device, seconds)
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


def features(shape: Shape, device: torch.device, seed: int) -> Tensor:
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
    calls = [_call(way, x, gradient) for _ in range(3)]
    graph = time_graph(calls * 4, repeats=20) if capture else None  # so many that the start of a replay is little
    return {
        "device_ms": None if graph is None else graph.median,
        "peak_mib": peak_memory(calls[0], x.device),
        "launches": count_launches(calls[0], x.device),
    }


def _relative_error(value: Tensor, oracle: Tensor) -> float:
    return float((value.double() - oracle).norm() / oracle.norm())
