"""Time, memory and kernel launches of a callable, and the share of a device's limits that a pool reaches."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from covpool.pools import Pool

Call = Callable[[], object]

SETTLING_SECONDS = 0.2  # idle OpenMP threads spin this long by default


@dataclass(frozen=True)
class Timing:
    """Milliseconds per call: the median and the 20th and 80th percentiles."""

    median: float
    p20: float
    p80: float

    @staticmethod
    def of(milliseconds: Sequence[float]) -> "Timing":
        ordered = sorted(milliseconds)
        last = len(ordered) - 1
        return Timing(statistics.median(ordered), ordered[round(0.2 * last)], ordered[round(0.8 * last)])


def time_interleaved(calls: Mapping[str, Call], device: torch.device, seconds: float) -> dict[str, Timing]:
    """Measure the wall time of each call. The calls take turns, so that a slow phase of the machine affects all alike.

    Before each turn, the threads of the previous call come to rest. A single call need not wait for others.

    Args:
        calls: Functions to measure, by name.
        device: Device they run on; it is synchronized before and after every call.
        seconds: Approximate time to measure in total, in seconds.
    """
    for call in calls.values():
        for _ in range(2):
            call()
    spent: dict[str, list[float]] = {name: [] for name in calls}
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or len(next(iter(spent.values()))) < 5:
        for name, call in calls.items():
            if len(calls) > 1 and device.type == "cpu":
                time.sleep(SETTLING_SECONDS)
            synchronize(device)
            begin = time.perf_counter()
            call()
            synchronize(device)
            spent[name].append((time.perf_counter() - begin) * 1e3)
    return {name: Timing.of(values) for name, values in spent.items()}


def time_graph(calls: Sequence[Call], repeats: int = 50) -> Timing | None:
    """Measure the device time per call under CUDA-graph replay, without launch gaps. None if capturing fails.

    Args:
        calls: The same work on different inputs, so that a replay does not find its inputs in the cache.
        repeats: Number of replays to measure.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls:
            call()
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for call in calls:
                call()
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    for _ in range(5):
        graph.replay()
    spent = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        spent.append(begin.elapsed_time(end) / len(calls))
    return Timing.of(spent)


def peak_memory(call: Call, device: torch.device) -> float | None:
    """MiB that a call allocates at its peak, on top of what is allocated already; None on a CPU."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def saved_memory(forward: Callable[[], object]) -> float:
    """MiB of tensors that a forward pass saves for its backward pass, each storage counted once."""
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # an output that keeps itself would never be freed

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = forward()  # kept alive, so that no storage is reused
    del result
    return sum(kept.values()) / 2**20


def count_launches(call: Call, device: torch.device) -> int | None:
    """Number of kernels that a call launches; None on a CPU."""
    return len(_kernel_times(call)) if device.type == "cuda" else None


def busy_time(call: Call, device: torch.device) -> float | None:
    """Total milliseconds of the kernels of a call, without time spent on the host; None on a CPU."""
    return sum(_kernel_times(call)) if device.type == "cuda" else None


def replay_time(call: Call, device: torch.device) -> float | None:
    """Milliseconds of a call under CUDA-graph replay, without time spent on the host; None on a CPU."""
    timing = time_graph([call], repeats=20) if device.type == "cuda" else None
    return None if timing is None else timing.median


def _kernel_times(call: Call) -> list[float]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return [event.device_time / 1e3 for event in profile.events() if event.device_type.name == "CUDA"]


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matmul_rate(device: torch.device, dtype: torch.dtype = torch.float16, order: int = 4096) -> float:
    """TFLOP/s of a large torch matmul: the rate of tensor cores in float16, of the set matmul precision in float32."""
    x = torch.randn(order, order, device=device, dtype=dtype)
    timing = time_interleaved({"product": lambda: x @ x}, device, 0.2)["product"]
    return 2 * order**3 / timing.p20 / 1e9


def copy_rate(device: torch.device, mebibytes: int = 1024) -> float:
    """GB/s of a large copy, counting the bytes read and written."""
    x = torch.empty(mebibytes * 2**18, device=device)
    y = torch.empty_like(x)
    timing = (time_graph([lambda: y.copy_(x)]) if device.type == "cuda" else None) or time_interleaved(
        {"copy": lambda: y.copy_(x)}, device, 0.2
    )["copy"]
    return 2 * x.nbytes / timing.p20 / 1e6


def pool_shares(
    pool: Pool, shape: tuple[int, int, int], milliseconds: float, limits: tuple[float, float]
) -> dict[str, float]:
    """The shares of the matmul rate and the copy rate that a forward and backward pass of a pool reaches.

    The operations are three times the stated cost of the forward pass. The traffic is the smallest possible: the
    features are read in both passes and their gradient is written; the same holds for the output and the parameters.

    Args:
        pool: Pool without reduction.
        shape: Shape (b, n, c) of the features.
        milliseconds: Measured time.
        limits: Results of `matmul_rate` and `copy_rate`.
    """
    b, n, c = shape
    flops = 3 * 2 * b * pool.multiply_adds(n, c)
    parameters = sum(p.numel() for p in pool.parameters())
    size = 4 * (3 * math.prod(shape) + 2 * b * pool.out_features + 3 * parameters)
    return {
        "share_of_products": flops / milliseconds / 1e9 / limits[0],
        "share_of_copy": size / milliseconds / 1e6 / limits[1],
    }
