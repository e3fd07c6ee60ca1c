"""Wall time and device time of a pool as users call it: in training and in inference, for many images and for one."""

from collections.abc import Iterator
from copy import deepcopy

import torch

import covpool
from covpool.bench._candidates import CandidateSet
from covpool.bench._compare import Shape, compare, features, relative_error
from covpool.bench._measure import replay_time, time_interleaved
from covpool.bench._record import Record

NAMES = ("avg", "isqrt")
SHAPES: dict[str, tuple[Shape, ...]] = {  # b, n, c
    "cpu": ((16, 196, 256), (1, 196, 256)),
    "cuda": ((128, 196, 256), (1, 196, 256)),
}


def latency(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    """Measure the wall time and the device time of a forward and backward pass, then of inference."""
    for shape in SHAPES[device.type]:
        pools = {name: covpool.create_pool(name, shape[-1]).to(device).eval() for name in NAMES}
        oracles = {name: deepcopy(pool).double() for name, pool in pools.items()}
        yield from compare("latency", CandidateSet({**pools}, {**oracles}), shape, device, seconds, seed)
        yield from _inference(pools, oracles, shape, device, seconds, seed)


@torch.no_grad()
def _inference(
    pools: dict[str, covpool.Pool],
    oracles: dict[str, covpool.Pool],
    shape: Shape,
    device: torch.device,
    seconds: float,
    seed: int,
) -> Iterator[Record]:
    x = features(shape, device, seed)
    calls = {name: lambda pool=pool: pool(x) for name, pool in pools.items()}
    timings = time_interleaved(calls, device, seconds)
    for name, timing in timings.items():
        replayed = replay_time(calls[name], device)
        yield Record.of(
            timing,
            timings[NAMES[0]],
            suite="latency, inference",
            name=name,
            shape=shape,
            passes="forward",
            value_error=relative_error(pools[name](x), oracles[name](x.double())),
            extra={} if replayed is None else {"device_ms": replayed},
        )
