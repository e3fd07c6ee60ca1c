"""Launches that the backward passes share: directions of gradients, and gradients in the features."""

import math
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from covpool.kernels import matrices, products
from covpool.kernels.features import (
    DIRECTION_TILE,
    SHARES,
    TINY,
    Features,
    direction_kernel,
    squared_lengths,
)
from covpool.kernels.launch import Chain
from covpool.kernels.plan import launch_kernel
from covpool.kernels.shape import triangle_tiles


def triangle_direction(run: Chain, g: Tensor, h: Tensor, c: int, scale: float) -> Tensor:
    """Write the direction of a triangle's gradient as the operand h = scale H; return the norms of the gradients."""
    b, parts, size, _ = h.shape
    squares, norms = squared_lengths(g), g.new_empty(b, dtype=torch.float32)
    launch_kernel(
        direction_kernel, (triangle_tiles(size, DIRECTION_TILE), b),
        g, squares, norms, h, run.counters, c, g.stride(0), scale,
        SHARES=SHARES, SIZE=size, PARTS=parts, T=DIRECTION_TILE,
    )  # fmt: skip
    return norms


def matrix_direction(run: Chain, g: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """The operand scale H, H the symmetric part of g divided by its norm, and the norms."""
    squares, norms = g.new_empty(run.b, run.items, dtype=torch.float64), g.new_empty(run.b, dtype=torch.float32)
    h, grid, c = run.empty(run.b), (run.items, run.b), g.shape[1]
    launch_kernel(
        matrices.squares_of_tiles_kernel, grid, g, squares, c, *g.stride(), run.items,
        SIZE=run.size, T=run.tiling.tile, num_warps=run.tiling.warps,
    )  # fmt: skip
    launch_kernel(
        matrices.matrix_direction_kernel, grid, g, squares, norms, h, c, *g.stride(), run.items, scale,
        ITEMS=triton.next_power_of_2(run.items), **matrix_constants(run),
    )  # fmt: skip
    return h, norms


def matrix_constants(run: Chain) -> dict[str, Any]:
    return {"SIZE": run.size, "PARTS": run.mode.parts, "T": run.tiling.tile, "num_warps": run.tiling.warps}


def channel_launch(run: Chain) -> dict[str, Any]:
    return {"num_warps": run.tiling.channel_warps, "num_stages": run.tiling.stages}


class Along(NamedTuple):
    """The part of a gradient along the features: e K, with e from the sums that the chain stored.

    Attributes:
        k: K as an operand, and its strides along channels and positions.
        sums: Parts of <H, F> and <dF, A>.
        factors: What multiplies the two in e.
    """

    k: tuple[Tensor, int, int]
    sums: Tensor
    factors: tuple[float, float]


def feature_gradient(
    f: Features, run: Chain, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor] | None, along: Along | None,
    norms: Tensor, trace: Tensor, roots: int,
) -> Tensor:  # fmt: skip
    """t^(roots / 2) (2 (x z^T + x2 z2^T) + e K) times the norms, in the layout of the features."""
    (x, z), (x2, z2) = first, second or first
    (k, row, column), sums, factors = along or ((z, 0, 0), norms, (0.0, 0.0))
    out = torch.empty_like(f.x)
    tile_j = run.tiling.tile
    tile_i = run.tiling.channel_tile if second is not None else run.tiling.tile
    columns = triton.cdiv(f.n, tile_j)
    items = 0 if along is None else sums.shape[1]
    launch_kernel(
        products.gradient_kernel, (triton.cdiv(f.c, tile_i) * columns, f.b),
        x, z, x2, z2, k, f.weights, sums, norms, trace, out,
        x.stride(0), z.stride(0), x2.stride(0), z2.stride(0), k.stride(0), row, column,
        x.stride(2), z.stride(2), x2.stride(2), z2.stride(2), x.stride(1), z.stride(1), x2.stride(1), z2.stride(1),
        k.stride(1), x.shape[3], x2.shape[3], f.n, f.c, *out.stride(), columns,
        1 / (run.mode.direction_scale * run.mode.k_scale), *factors, items, TINY, math.sqrt(f.n),
        SECOND=second is not None, WEIGHTED=f.w is not None, ROOTS=roots,
        ITEMS=triton.next_power_of_2(items) if items else 0, PARTS=run.mode.parts, TI=tile_i, TJ=tile_j,
        BK=run.tiling.inner, **channel_launch(run),
    )  # fmt: skip
    return out
