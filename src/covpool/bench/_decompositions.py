"""The paper's table of decomposition times: eigenvalues and singular values of symmetric 256 x 256 matrices."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from covpool.bench._measure import time_interleaved
from covpool.bench._record import Record
from covpool.ops import eigh

ORDER = 256
Factors = tuple[Tensor, ...]


def decompositions(device: torch.device, seconds: float, seed: int) -> Iterator[Record]:
    """Measure eigenvalue and singular value decompositions of one matrix and of a batch, with reconstruction errors."""
    candidates: dict[str, Callable[[Tensor], Factors]] = {
        "torch.linalg.eigh": torch.linalg.eigh,
        "covpool eigh": eigh,
        "torch.linalg.svd": torch.linalg.svd,
    }
    for batch in (1, 128 if device.type == "cuda" else 8):
        x = torch.randn(batch, 196, ORDER, generator=torch.Generator().manual_seed(seed)).to(device)
        a = x.mT @ x / 196
        timings = time_interleaved(
            {name: partial(candidate, a) for name, candidate in candidates.items()}, device, seconds / 2
        )
        for name, candidate in candidates.items():
            timing = timings[name]
            yield Record.of(
                timing,
                timings["torch.linalg.eigh"],
                suite="decompositions",
                name=name,
                shape=(batch, ORDER, ORDER),
                passes="forward",
                value_error=_reconstruction_error(a, candidate(a)),
            )


def _reconstruction_error(a: Tensor, factors: Factors) -> float:
    left, values, right = factors if len(factors) == 3 else (factors[1], factors[0], factors[1].mT)
    rebuilt = (left.double() * values.double().unsqueeze(-2)) @ right.double()
    return float((rebuilt - a).norm() / a.double().norm())
