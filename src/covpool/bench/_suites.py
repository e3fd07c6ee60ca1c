"""The suites of the benchmark: which comparisons, at which shapes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import torch

import covpool
from covpool.bench._candidates import EXACT_ROOT, CandidateSet, Function, isqrt, mpn, operations
from covpool.bench._classifier import classifier
from covpool.bench._compare import Shape, compare, features
from covpool.bench._decompositions import decompositions
from covpool.bench._every_operation import every_operation
from covpool.bench._latency import latency
from covpool.bench._measure import copy_rate, matmul_rate, pool_shares, saved_memory, time_interleaved
from covpool.bench._record import Record

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
ROOT_SHAPES: dict[str, Shape] = {"cpu": (8, 196, 128), "cuda": (24, 784, 512)}  # b, n, c; VGG-16 at 448 on a GPU
EXACT_BCNN = "improved_bcnn, eigenvalues, exact Lyapunov"
START_COMMANDS = {
    "import torch": ("-c", "import torch"),
    "from covpool import create_pool": ("-c", "from covpool import create_pool"),
    "import covpool": ("-c", "import covpool"),
    "covpool --help": ("-m", "covpool", "--help"),
}


def _isqrt_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    limit = matmul_rate(device) if device.type == "cuda" else None
    shapes = ISQRT_SHAPES[device.type]
    for shape in shapes:  # a compilation takes half a minute: compile at the first shape only
        comparison = isqrt(device.type, compiled=shape == shapes[0], dual=shape[1] <= shape[2])
        for record in compare("isqrt", comparison, shape, device, seconds, seed):
            if limit is not None and record.extra["device_ms"] is not None and record.name != EXACT_ROOT:
                rate = useful_flops(*shape) / record.extra["device_ms"] / 1e9
                record.extra |= {"tflops": rate, "share_of_limit": rate / limit, "limit_tflops": limit}
            yield record


def useful_flops(b: int, n: int, c: int, iterations: int = 5) -> float:
    """Operations of a forward and backward pass in the smaller form; symmetric products count half."""
    order = min(n, c)
    chain = (3 * iterations - 3) * order**3  # half of 2 order^3 each
    return b * (4 * chain + 3 * n * c * c)  # the covariance counts half, its gradient in full


def _mpn_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    for shape in MPN_SHAPES[device.type]:
        yield from compare("mpn", mpn(), shape, device, seconds, seed)


def _operations_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    """The main operations against their plain implementation, then every operation beside the covariance."""
    for name, comparison in operations().items():
        yield from compare(name, comparison, POOL_SHAPE[device.type], device, seconds, seed)
    every = every_operation(POOL_SHAPE[device.type][-1], device)
    comparison = CandidateSet(every, dict(every), not_captured=("orthonormalize_qr", "powm_svd"))
    yield from compare("operations", comparison, POOL_SHAPE[device.type], device, seconds, seed)


# Pools with other options than their defaults, by the name of their record.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gaussian,solver=newton_schulz": ("gaussian", {"solver": "newton_schulz"})
}


def _pools_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    shape = POOL_SHAPE[device.type]
    measured: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in ["avg", *covpool.list_pools()]}
    measured |= VARIANTS
    pools: dict[str, covpool.Pool] = {}
    for label, (name, options) in measured.items():
        torch.manual_seed(seed)
        pools[label] = covpool.create_pool(name, shape[-1], **options).to(device).eval()
    candidates: dict[str, Function] = {**pools}
    oracles: dict[str, Function] = {name: deepcopy(pool).double() for name, pool in pools.items()}
    limits = (matmul_rate(device, torch.float32), copy_rate(device)) if device.type == "cuda" else None
    for record in compare("pools", CandidateSet(candidates, oracles), shape, device, seconds, seed):
        if limits is not None:
            busy = record.extra["device_ms"] or record.median_ms
            record.extra |= pool_shares(pools[record.name], shape, busy, limits)
            record.extra |= {"limit_tflops": limits[0], "limit_gb_per_s": limits[1]}
        yield record


def _curves_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    """Time as a function of channels, positions and batch, one of them at a time."""
    found = isqrt(device.type, compiled=False).candidates
    names = ("autograd", "covpool tf32") if device.type == "cuda" else ("autograd", "covpool")
    comparison = CandidateSet({name: found[name] for name in names}, found["autograd"])
    for shape in CURVE_SHAPES[device.type]:
        yield from compare("curves", comparison, shape, device, seconds / 4, seed)


def _root_pools(channels: int) -> dict[str, covpool.Pool]:
    """The pools of the paper's Appendix V, named by their algorithms for the forward and the backward pass."""

    def improved(**options: object) -> covpool.Pool:
        return covpool.create_pool("improved_bcnn", channels, **options)

    found = {EXACT_BCNN: improved(), "improved_bcnn, NS 5, exact Lyapunov": improved(forward="newton_schulz")}
    for steps in (5, 10, 20):
        options = {"iterations": steps, "backward": "iterative_lyapunov", "backward_steps": steps}
        found[f"improved_bcnn, NS {steps}, iterative Lyapunov {steps}"] = improved(forward="newton_schulz", **options)
    found["improved_bcnn, NS 5, autograd"] = improved(forward="newton_schulz", backward="autograd")
    found["isqrt, NS 5"] = covpool.create_pool("isqrt", channels)
    return found


def _roots_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    """Measure time, memory kept for the backward pass, and error against the exact root and gradient in float64."""
    shape = ROOT_SHAPES[device.type]
    made = {name: pool.to(device) for name, pool in _root_pools(shape[-1]).items()}
    exact = deepcopy(made[EXACT_BCNN]).double()
    oracles: dict[str, Function] = dict.fromkeys(made, exact)
    oracles["isqrt, NS 5"] = deepcopy(made["isqrt, NS 5"]).double()
    x = features(shape, device, seed).requires_grad_()
    for record in compare("roots", CandidateSet({**made}, oracles), shape, device, seconds, seed):
        pool = made[record.name]
        record.extra["saved_mib"] = saved_memory(lambda pool=pool: pool(x))  # type: ignore[misc]
        yield record


def _startup_suite(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    """Measure the wall time of new Python processes, interleaved. The seed has no effect."""
    start = partial(subprocess.run, check=True, capture_output=True)
    calls = {name: partial(start, [sys.executable, *arguments]) for name, arguments in START_COMMANDS.items()}
    timings = time_interleaved(calls, torch.device("cpu"), seconds)
    for name, timing in timings.items():
        yield Record.of(
            timing,
            timings["import torch"],
            suite="startup",
            name=name,
            shape=(),
            passes="new process",
        )


# Measures the suite of a name on a device, in about these seconds per shape, with a seed; yields records one by one.
SUITES: dict[str, Callable[[torch.device, float, int], Iterator[Record]]] = {
    "isqrt": _isqrt_suite,
    "mpn": _mpn_suite,
    "operations": _operations_suite,
    "pools": _pools_suite,
    "decompositions": decompositions,
    "roots": _roots_suite,
    "curves": _curves_suite,
    "latency": latency,
    "classifier": classifier,
    "startup": _startup_suite,
}
