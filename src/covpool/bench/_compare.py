"""One comparison at one shape: interleaved times, errors against float64, and measurements of the device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from covpool.bench._candidates import CandidateSet, Function
from covpool.bench._measure import count_launches, peak_memory, time_graph, time_interleaved
from covpool.bench._record import Record

Shape = tuple[int, int, int]  # b, n, c


def compare(
    suite: str, comparison: CandidateSet, shape: Shape, device: torch.device, seconds: float, seed: int
) -> Iterator[Record]:
    """Measure all candidates of a comparison at one shape, forward and backward.

    Args:
        suite: Name of the suite in the records.
        comparison: Candidates and their float64 oracles.
        shape: Shape (b, n, c) of the features.
        device: Device to measure on.
        seconds: Approximate time to measure, in seconds.
        seed: Seed of the features.
    """
    x = features(shape, device, seed)
    oracles = {name: comparison.oracle_of(name) for name in comparison.candidates}
    exact = {oracle: _exact(oracle, x, seed) for oracle in oracles.values()}
    gradients = {name: exact[oracle].upstream.to(x.dtype) for name, oracle in oracles.items()}
    calls = {name: _call(candidate, x, gradients[name]) for name, candidate in comparison.candidates.items()}
    timings = time_interleaved(calls, device, seconds)
    baseline = next(iter(timings.values()))
    for name, candidate in comparison.candidates.items():
        value, slope = _step(candidate, x, gradients[name])
        timing, truth = timings[name], exact[oracles[name]]
        yield Record.of(
            timing,
            baseline,
            suite=suite,
            name=name,
            shape=shape,
            passes="forward+backward",
            value_error=relative_error(value, truth.value),
            gradient_error=relative_error(slope, truth.slope),
            extra=_device_figures(candidate, x, gradients[name], name not in comparison.not_captured)
            if device.type == "cuda"
            else {},
        )


@dataclass(frozen=True)
class _Exact:
    """A forward and backward pass in float64: upstream gradient, value, and gradient of the features."""

    upstream: Tensor
    value: Tensor
    slope: Tensor


def features(shape: Shape, device: torch.device, seed: int) -> Tensor:
    """Random features after a ReLU, as a network produces them."""
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


def _device_figures(candidate: Function, x: Tensor, gradient: Tensor, capture: bool) -> dict[str, float | int | None]:
    """Device time under graph replay, peak memory and number of launches. Inputs rotate to defeat the cache."""
    calls = [_call(candidate, x, gradient) for _ in range(3)]
    graph = time_graph(calls * 4, repeats=20) if capture else None  # enough calls to hide the start of a replay
    return {
        "device_ms": None if graph is None else graph.median,
        "peak_mib": peak_memory(calls[0], x.device),
        "launches": count_launches(calls[0], x.device),
    }


def relative_error(value: Tensor, oracle: Tensor) -> float:
    """|value - oracle| / |oracle|, computed in float64."""
    return float((value.double() - oracle).norm() / oracle.norm())
