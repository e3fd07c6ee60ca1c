"""The paper's table of decomposition times: eigenvalues and singular values of symmetric 256 x 256 matrices."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from covpool.bench._measure import time_interleaved
from covpool.bench._record import Record
from covpool.ops import eigh

ORDER = 256
Factors = tuple[Tensor, ...]


def decompositions(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    """Time eigen- and singular value decompositions, of one matrix and of a batch, with their reconstruction errors."""
    ways: dict[str, Callable[[Tensor], Factors]] = {
        "torch.linalg.eigh": torch.linalg.eigh,
        "covpool eigh": eigh,
        "torch.linalg.svd": torch.linalg.svd,
    }
    for batch in (1, 128 if device.type == "cuda" else 8):
        x = torch.randn(batch, 196, ORDER, generator=torch.Generator().manual_seed(seed)).to(device)
        a = x.mT @ x / 196
        timings = time_interleaved({name: _call(way, a) for name, way in ways.items()}, device, seconds / 2)
        yardstick = timings["torch.linalg.eigh"].median
        for name, way in ways.items():
            timing = timings[name]
            yield Record(
                suite="decompositions",
                name=name,
                shape=(batch, ORDER, ORDER),
                passes="forward",
                median_ms=timing.median,
                p20_ms=timing.p20,
                p80_ms=timing.p80,
                ratio=yardstick / timing.median,
                value_error=_reconstruction_error(a, way(a)),
            )


def _call(way: Callable[[Tensor], Factors], a: Tensor) -> Callable[[], object]:
    return lambda: way(a)


def _reconstruction_error(a: Tensor, factors: Factors) -> float:
    left, values, right = factors if len(factors) == 3 else (factors[1], factors[0], factors[1].mT)
    rebuilt = (left.double() * values.double().unsqueeze(-2)) @ right.double()
    return float((rebuilt - a).norm() / a.double().norm())
