"""Expected results of the kernels, in float64 and by plain autograd on the CPU."""

from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cases import generator
from covpool.kernels.launch import Chain
from covpool.ops import reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SEVERAL_TILES = 140 if DEVICE == "cuda" else 20  # the order of a matrix
LARGEST_ERROR = {"float32": 1e-5, "tf32": 2e-3, "bf16": 3e-2}


def combinations(*options: tuple[Any, ...], few: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """All combinations of options on a GPU; in Triton's interpreter, which is slow, a few of them."""
    return list(product(*options)) if DEVICE == "cuda" else few


def randn(*shape: int, seed: int = 0) -> Tensor:
    """Normal float32 numbers on the device under test."""
    return torch.randn(shape, generator=generator(seed)).to(DEVICE)


def memory_with_a_hole(folder: Path, size: int) -> Tensor:
    """`size` zeros in a file that takes no room on the disk, to test offsets beyond the range of int32 on a CPU.

    An offset that wraps around is up to 2^31 too low, so there is memory below the zeros, too.
    """
    file = folder / "memory"
    memory = torch.from_file(str(file), shared=True, size=2**31 + size)
    file.unlink()
    return memory[2**31 :]


def position_weights(b: int, n: int) -> Tensor:
    """Uneven weights (b, n) that sum to one; every third position has none."""
    w = torch.rand(b, n, generator=generator(5)) + 0.1
    w[:, 2::3] = 0
    return (w / w.sum(-1, keepdim=True)).to(DEVICE)


def split(value: Tensor, dtype: torch.dtype, parts: int) -> Tensor:
    """An operand (..., parts, rows, columns): the rounded value, and with two parts its remainder."""
    rounded = value.to(dtype)
    return torch.stack([rounded, (value - rounded.float()).to(dtype)][:parts], -3)


def covariance(x: Tensor, w: Tensor | None) -> Tensor:
    """The float64 covariance (b, c, c) of features (b, n, c) under weights that sum to one."""
    w = torch.full(x.shape[:2], 1 / x.shape[1], dtype=torch.float64) if w is None else w.cpu().double()
    centred = x - (w.unsqueeze(-1) * x).sum(1, keepdim=True)
    return centred.mT @ (w.unsqueeze(-1) * centred)


def isqrt_and_gradient(
    x: Tensor, w: Tensor | None, g: Tensor, iterations: int, postcomp: bool
) -> tuple[Tensor, Tensor]:
    """The triangle of the result, and the gradient in x for the gradient g of that triangle."""
    x = x.detach().cpu().double().requires_grad_()
    root = reference.isqrt_iterated(covariance(x, w), iterations, postcomp=postcomp)
    rows, columns = torch.triu_indices(x.shape[2], x.shape[2])
    z = root[:, rows, columns]
    (dx,) = torch.autograd.grad(z, x, g.cpu().double())
    return z.detach().to(DEVICE), dx.to(DEVICE)


def newton_schulz(a: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """Y_N and P_N of normalised matrices."""
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    y, p = a, eye.expand_as(a)
    for _ in range(iterations):
        half = 1.5 * eye - 0.5 * p @ y
        y, p = y @ half, half @ p
    return y, p


def problem(run: Chain) -> tuple[Tensor, Tensor]:
    """Matrices of trace one and directions of norm one for a chain. Resets its counters."""
    run.counters.zero_()
    x, h = randn(run.b, run.size, run.size), randn(run.b, run.size, run.size, seed=1)
    a, h = x @ x.mT, h + h.mT
    trace = a.diagonal(dim1=1, dim2=2).sum(-1)[:, None, None]
    return a / trace, h / torch.linalg.matrix_norm(h, keepdim=True)


def operand(run: Chain, value: Tensor) -> Tensor:
    return split(value, run.mode.storage, run.mode.parts)
