"""Generated inputs: shapes, ranks, scales, dtypes, strides and masks drawn from a seed.

GENERATED_CASES sets the number of cases of every pool, operation and form, GENERATED_SEED the seed of the first one.
"""

import os
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

CASES = int(os.environ.get("GENERATED_CASES", "40"))
SEEDS = range(first := int(os.environ.get("GENERATED_SEED", "0")), first + CASES)
CHANNELS = (2, 3, 5, 8, 16, 17, 24, 33)


class Case(NamedTuple):
    """Features and a mask."""

    x: Tensor  # (b, n, c), float64
    mask: Tensor  # (b, n), at least one position of every item is kept
    stored: Tensor  # the same values as x with other strides
    scale: float
    about: str


def draw(seed: int, channels: int | None = None, *, most_positions: int = 40, scales: float = 4) -> Case:
    """Draw a case.

    Args:
        seed: Seed of the case.
        channels: Number of channels; drawn if None.
        most_positions: Largest number of positions.
        scales: The scale is between 10^-scales and 10^scales.
    """
    rng = np.random.default_rng(seed)
    c = channels or int(rng.choice(CHANNELS))
    b, n = int(rng.integers(1, 5)), int(rng.integers(1, most_positions + 1))
    rank = int(rng.choice([1, 2, min(n, c), n + c]))
    scale = float(10 ** rng.uniform(-scales, scales))
    values = rng.standard_normal((b, n, c))
    if rank < min(n, c):
        values = rng.standard_normal((b, n, rank)) @ rng.standard_normal((b, rank, c))
    if rng.random() < 0.5:
        values = values.clip(min=0)  # after a ReLU
    if rng.random() < 0.2:
        values[..., : c // 2] = values[0, 0, 0]  # constant channels
    x = torch.from_numpy(values * scale)
    mask = torch.from_numpy(rng.random((b, n)) < rng.choice([0.1, 0.6, 1.0]))
    mask[torch.arange(b), torch.from_numpy(rng.integers(0, n, b))] = True
    return Case(x, mask, _with_strides(x, rng), scale, f"seed {seed}: {(b, n, c)}, rank {rank}, scale {scale:.1e}")


def _with_strides(x: Tensor, rng: np.random.Generator) -> Tensor:
    kind = rng.integers(3)
    if kind == 0:
        return x.mT.contiguous().mT  # channels first
    if kind == 1:
        wide = torch.full((x.shape[0], 2 * x.shape[1], x.shape[2] + 3), torch.nan, dtype=x.dtype)
        view = wide[:, ::2, 1:-2]
        view.copy_(x)
        return view
    return x.movedim(0, 1).contiguous().movedim(0, 1)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """The norm of the difference over the norm of the expected value."""
    actual, expected = actual.detach().double(), expected.detach().double()
    norm, difference = (float(torch.linalg.vector_norm(t)) for t in (expected, actual - expected))
    return difference / norm if norm else difference
