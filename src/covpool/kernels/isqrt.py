"""iSQRT-COV of features on the GPU, forward and backward, as raw operations without autograd.

The kernels cover everything from the features to the triangle of the result. `covpool.ops` wraps them in Functions.
"""

import math
from typing import Any

import torch
import triton
from torch import Tensor

from covpool.kernels import products
from covpool.kernels.features import (
    DIRECTION_TILE,
    MOMENT_CHANNELS,
    SHARES,
    TINY,
    Features,
    direction_kernel,
    squared_lengths,
)
from covpool.kernels.launch import OPERAND, TRIANGLE, Chain
from covpool.kernels.precision import Mode, mode
from covpool.kernels.shape import padded, triangle_tiles
from covpool.kernels.vmap import fold_vmap


def triangle(c: int) -> int:
    return c * (c + 1) // 2


def forward_primal(x: Tensor, w: Tensor | None, iterations: int, m: Mode, postcomp: bool) -> tuple[Tensor, ...]:
    """Return the triangle of the result, A, the mean and the squares."""
    f = Features(x, w, m)
    run = Chain(f.b, f.c, iterations, m, x)
    kt_shape = (run.size, padded(f.n, run.tiling.inner))
    _, kt, _, scales = f.operands(None, kt_shape, 1 / m.y_scale, postcomp)
    a = run.empty(f.b)
    run.gram(kt, kt, a)
    out = f.mean.new_empty(f.b, triangle(f.c))
    run.value(a, out, scales, f.c, TRIANGLE)
    return out, a, f.mean, f.squares


def forward_dual(x: Tensor, w: Tensor | None, iterations: int, m: Mode, postcomp: bool) -> tuple[Tensor, ...]:
    """Return the triangle of the result, A, the mean and the squares."""
    f = Features(x, w, m)
    run = Chain(f.b, f.n, iterations, m, x)
    width = padded(f.c, run.tiling.channel_tile)
    k, kt, _, scales = f.operands((run.size, width), (width, run.size), 1 / m.k_scale**2, postcomp)
    a, p = run.empty(f.b), run.empty(f.b)
    run.gram(k, k, a)
    run.value(a, p, scales, f.n, OPERAND)
    wt = torch.empty_like(kt)
    _product(kt, p, wt, None, run)
    out = f.mean.new_empty(f.b, triangle(f.c))
    products.triangle_kernel[(triangle_tiles(width, run.tiling.channel_tile), f.b)](
        kt, wt, out, scales, f.c, kt.stride(0), kt.stride(2), kt.stride(1), run.size, out.stride(0),
        TILES=width // run.tiling.channel_tile, PARTS=m.parts, T=run.tiling.channel_tile, BK=run.tiling.inner,
        **_channel_launch(run),
    )  # fmt: skip
    return out, a, f.mean, f.squares


def _product(x: Tensor, z: Tensor, out: Tensor, out_t: Tensor | None, run: Chain) -> None:
    """out = x z^T for rows of x in channel tiles and rows of z in the chain's tiles; out_t, if given, its transpose."""
    columns = z.shape[2] // run.tiling.tile
    second = out if out_t is None else out_t
    products.product_kernel[(x.shape[2] // run.tiling.channel_tile * columns, x.shape[0])](
        x, z, out, second, x.stride(0), z.stride(0), out.stride(0), x.stride(2), z.stride(2), out.stride(2),
        second.stride(2), x.stride(1), z.stride(1), out.stride(1), x.shape[3], columns,
        BOTH=out_t is not None, PARTS=run.mode.parts, TI=run.tiling.channel_tile, TJ=run.tiling.tile,
        BK=run.tiling.inner, **_channel_launch(run),
    )  # fmt: skip


def backward_primal(f: Features, a: Tensor, g: Tensor, iterations: int, postcomp: bool) -> Tensor:
    m = f.mode
    run = Chain(f.b, f.c, iterations, m, f.x)
    h = run.empty(f.b)
    norms = _direction(run, g, h, f.c, m.direction_scale * m.y_scale)
    _, slope, sums = run.pair(a, h, factor=False)
    del h
    k, _, trace, _ = f.operands((padded(f.n, run.tiling.tile), run.size), None, 1.0, postcomp)
    factors = (1.0 if postcomp else 0.0, -2.0)
    return _gradient(f, run, (slope, k), None, (k, 1, k.stride(2)), sums, norms, trace, factors, postcomp)


def backward_dual(f: Features, a: Tensor, g: Tensor, iterations: int, postcomp: bool) -> Tensor:
    m = f.mode
    run = Chain(f.b, f.n, iterations, m, f.x)
    width = padded(f.c, run.tiling.channel_tile)
    k, kt, trace, _ = f.operands((run.size, width), (width, run.size), 1.0, postcomp)
    s = k.new_empty(f.b, m.parts, width, width)
    norms = _direction(run, g, s, f.c, m.direction_scale)
    kst, ks = torch.empty_like(kt), torch.empty_like(k)
    _product(s, k, kst, ks, run)
    h = run.empty(f.b)
    run.gram(ks, k, h)
    p, dp, sums = run.pair(a, h, factor=True)
    factors = (-1.0 if postcomp else -2.0, -2.0)
    return _gradient(f, run, (kst, p), (kt, dp), (kt, kt.stride(2), 1), sums, norms, trace, factors, postcomp)


def _channel_launch(run: Chain) -> dict[str, Any]:
    return {"num_warps": run.tiling.channel_warps, "num_stages": run.tiling.stages}


def _direction(run: Chain, g: Tensor, h: Tensor, c: int, scale: float) -> Tensor:
    """Write the direction of a triangle's gradient as the operand h = scale H; return the norms of the gradients."""
    b, parts, size, _ = h.shape
    squares, norms = squared_lengths(g), g.new_empty(b, dtype=torch.float32)
    direction_kernel[(triangle_tiles(size, DIRECTION_TILE), b)](
        g, squares, norms, h, run.counters, c, g.stride(0), scale,
        SHARES=SHARES, SIZE=size, PARTS=parts, T=DIRECTION_TILE,
    )  # fmt: skip
    return norms


def _gradient(
    f: Features, run: Chain, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor] | None,
    k: tuple[Tensor, int, int], sums: Tensor, norms: Tensor, trace: Tensor, factors: tuple[float, float],
    postcomp: bool,
) -> Tensor:  # fmt: skip
    """2 (x z^T + x2 z2^T) + e K in the layout of the features."""
    (x, z), (x2, z2) = first, second or first
    out = torch.empty_like(f.x)
    tile_j = run.tiling.tile
    tile_i = run.tiling.channel_tile if second is not None else run.tiling.tile
    columns = triton.cdiv(f.n, tile_j)
    features_k, row, column = k
    products.gradient_kernel[(triton.cdiv(f.c, tile_i) * columns, f.b)](
        x, z, x2, z2, features_k, f.x if f.w is None else f.w, sums, norms, trace, out,
        x.stride(0), z.stride(0), x2.stride(0), z2.stride(0), features_k.stride(0), row, column,
        x.stride(2), z.stride(2), x2.stride(2), z2.stride(2), x.stride(1), z.stride(1), x2.stride(1), z2.stride(1),
        features_k.stride(1), x.shape[3], x2.shape[3], f.n, f.c, *out.stride(), columns,
        1 / (run.mode.direction_scale * run.mode.k_scale), *factors, sums.shape[1], TINY, math.sqrt(f.n),
        SECOND=second is not None, WEIGHTED=f.w is not None, COMPENSATED=postcomp,
        ITEMS=triton.next_power_of_2(sums.shape[1]), PARTS=run.mode.parts, TI=tile_i, TJ=tile_j, BK=run.tiling.inner,
        **_channel_launch(run),
    )  # fmt: skip
    return out


@torch.library.custom_op("covpool::isqrt_forward", mutates_args=())
def forward(
    x: Tensor, w: Tensor | None, form: str, iterations: int, postcomp: bool, precision: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The triangle of the result (b, c (c + 1) / 2), and A, mean and squares for the backward pass.

    Args:
        x: Features (b, n, c) with any strides.
        w: Weights (b, n) that sum to one, or None.
        form: Either "primal" or "dual".
        iterations: Number of iterations N, 3 to 7.
        postcomp: Multiply by sqrt(t).
        precision: A `Precision`.
    """
    run = forward_primal if form == "primal" else forward_dual
    out, a, mean, squares = run(x, w, iterations, mode(precision, iterations), postcomp)
    return out, a, mean, squares


@forward.register_fake
def _(
    x: Tensor, w: Tensor | None, form: str, iterations: int, postcomp: bool, precision: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    b, n, c = x.shape
    run = Chain(b, c if form == "primal" else n, iterations, mode(precision, iterations), x)
    moments = torch.float32
    blocks = triton.cdiv(c, MOMENT_CHANNELS)
    return (
        x.new_empty(b, triangle(c), dtype=moments),
        run.empty(b),
        x.new_empty(b, 2, c, dtype=moments),
        x.new_empty(b, blocks, dtype=moments),
    )


@torch.library.custom_op("covpool::isqrt_backward", mutates_args=())
def backward(
    x: Tensor, w: Tensor | None, a: Tensor, mean: Tensor, squares: Tensor, g: Tensor,
    form: str, iterations: int, postcomp: bool, precision: str,
) -> Tensor:  # fmt: skip
    """The gradient with respect to x, given the gradient of the triangle."""
    f = Features(x, w, mode(precision, iterations), (mean, squares))
    run = backward_primal if form == "primal" else backward_dual
    return run(f, a, g.contiguous(), iterations, postcomp)


@backward.register_fake
def _(
    x: Tensor, w: Tensor | None, a: Tensor, mean: Tensor, squares: Tensor, g: Tensor,
    form: str, iterations: int, postcomp: bool, precision: str,
) -> Tensor:  # fmt: skip
    return torch.empty_like(x)


fold_vmap(forward, outputs=4)
fold_vmap(backward, outputs=1)
