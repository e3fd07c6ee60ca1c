"""iSQRT-COV of features on the GPU, forward and backward, as raw operations without autograd.

Everything between the features and the triangle of the result happens here; `covpool.ops` wraps it in Functions.
"""

import math
from typing import Any

import torch
import triton
from torch import Tensor

from covpool.kernels import chain, products
from covpool.kernels.features import CHANNEL_BLOCK, TINY, Features, direction_kernel, lengths
from covpool.kernels.precision import Mode, mode
from covpool.kernels.shape import Tiling, one_program_per_matrix, padded, tiling
from covpool.kernels.vmap import fold_vmap

PLAIN, HALVED, TRIANGLE, MATRIX = (kind.value for kind in (chain.PLAIN, chain.HALVED, chain.TRIANGLE, chain.MATRIX))
CHANNEL_TILE = 128


class Chain:
    """The chain on matrices of one order: its workspace, its launches."""

    def __init__(self, b: int, order: int, iterations: int, m: Mode, like: Tensor) -> None:
        self.b, self.iterations, self.mode = b, iterations, m
        self.tiling: Tiling = tiling(order, m.parts)
        self.size = padded(order, self.tiling.tile)
        self.items = math.comb(self.size // self.tiling.tile + 1, 2)
        self.like = like
        self.half = 0.5 / m.y_scale

    def empty(self, *lead: int) -> Tensor:
        return self.like.new_empty(*lead, self.mode.parts, self.size, self.size, dtype=self.mode.storage)

    def constants(self, stages: int) -> dict[str, Any]:
        t = self.tiling
        return {
            "SIZE": self.size, "PARTS": self.mode.parts, "T": t.tile, "BK": t.inner, "num_warps": t.warps,
            "num_stages": stages,
        }  # fmt: skip

    def gram(self, x: Tensor, z: Tensor, a: Tensor, slot: Tensor, identity: float) -> None:
        """For x, z stored k_scale times too large: a = y_scale x z^T and slot = identity I - x z^T / 2."""
        shrink = 1 / self.mode.k_scale**2
        products.gram_kernel[(self.items, self.b)](
            x, z, a, slot, x.stride(0), x.stride(2), x.stride(1), x.shape[3], slot.stride(0),
            self.mode.y_scale * shrink, 0.5 * shrink, identity,
            **self.constants(self.tiling.stages),
        )  # fmt: skip

    def value(self, a: Tensor, workspace: Tensor, out: Tensor, scales: Tensor, c: int, last: int) -> None:
        """The factor (last = PLAIN) or the scaled root (TRIANGLE, MATRIX); slot 1 of the workspace holds P_1."""
        constants = self.constants(self.tiling.stages)
        if one_program_per_matrix(self.b):
            chain.chain_kernel[(self.b,)](
                a, workspace, out, scales, c, out.stride(0), self.half, self.iterations, LAST=last, **constants
            )
            return

        def step(x: Tensor, z: Tensor, into: Tensor, kind: int) -> None:
            chain.value_step_kernel[(self.items, self.b)](
                x, z, into, scales, c, x.stride(0), z.stride(0), into.stride(0), self.half, KIND=kind, **constants
            )

        y, p, t, free = workspace.unbind(1)
        step(a, p, y, PLAIN)
        for _ in range(self.iterations - 2):
            step(p, y, t, HALVED)
            step(y, t, free, PLAIN)
            step(t, p, y, PLAIN)
            y, p, free = free, y, p
        step(p, y, t, HALVED)
        step(p if last == PLAIN else y, t, out, last)

    def pair(self, a: Tensor, h: Tensor, workspace: Tensor, factor: bool) -> tuple[Tensor, Tensor, Tensor]:
        """F (for the factor), dF[H], and per tile the shares of <H, F> and <dF, A>; slots 1 and 5 hold P_1 and dP_1."""
        constants = self.constants(self.tiling.pair_stages)
        sums = self.like.new_empty(self.b, self.items, 2, dtype=torch.float32)
        df = self.empty(self.b)
        f = self.empty(self.b) if factor else df
        f_scale, a_scale = (1.0 if factor else 1 / self.mode.y_scale), 1 / self.mode.y_scale
        if one_program_per_matrix(self.b):
            chain.pair_chain_kernel[(self.b,)](
                a, h, workspace, f, df, sums, self.half, f_scale, a_scale, self.iterations, FACTOR=factor, **constants
            )
            return f, df, sums
        slots = workspace.unbind(1)

        def step(x: tuple[Tensor, Tensor], z: tuple[Tensor, Tensor], into: tuple[Tensor, Tensor], kind: int) -> None:
            chain.pair_step_kernel[(self.items, self.b)](
                *x, *z, *into, x[0].stride(0), z[0].stride(0), into[0].stride(0), self.half, KIND=kind, **constants
            )

        y, p, t, free = zip(slots[:4], slots[4:], strict=True)
        step((a, h), p, y, PLAIN)
        for _ in range(self.iterations - 2):
            step(p, y, t, HALVED)
            step(y, t, free, PLAIN)
            step(t, p, y, PLAIN)
            y, p, free = free, y, p
        step(p, y, t, HALVED)
        chain.last_pair_step_kernel[(self.items, self.b)](
            *(p if factor else y), *t, a, h, f, df, sums, t[0].stride(0), f_scale, a_scale, FACTOR=factor, **constants
        )
        return f, df, sums


def triangle(c: int) -> int:
    return c * (c + 1) // 2


def forward_primal(x: Tensor, w: Tensor | None, iterations: int, m: Mode, postcomp: bool) -> tuple[Tensor, ...]:
    """The triangle, A, and the moments."""
    f = Features(x, w, m)
    run = Chain(f.b, f.c, iterations, m, x)
    kt_shape = (run.size, padded(f.n, run.tiling.inner))
    _, kt, _, scales = f.operands(None, kt_shape, 1 / m.y_scale, postcomp)
    a, workspace = run.empty(f.b), run.empty(f.b, 4)
    run.gram(kt, kt, a, workspace[:, 1], 1.5)
    out = f.mean.new_empty(f.b, triangle(f.c))
    run.value(a, workspace, out, scales, f.c, TRIANGLE)
    return out, a, f.mean, f.squares


def forward_dual(x: Tensor, w: Tensor | None, iterations: int, m: Mode, postcomp: bool) -> tuple[Tensor, ...]:
    """The triangle and the moments; nothing else is worth keeping."""
    f = Features(x, w, m)
    run = Chain(f.b, f.n, iterations, m, x)
    width = padded(f.c, CHANNEL_TILE)
    k, kt, _, scales = f.operands((run.size, width), (width, run.size), 1 / m.k_scale**2, postcomp)
    a, workspace, p = run.empty(f.b), run.empty(f.b, 4), run.empty(f.b)
    run.gram(k, k, a, workspace[:, 1], 1.5)
    run.value(a, workspace, p, scales, f.n, PLAIN)
    wt = torch.empty_like(kt)
    _product(kt, p, wt, None, run)
    out = f.mean.new_empty(f.b, triangle(f.c))
    tiles = width // CHANNEL_TILE
    products.triangle_kernel[(math.comb(tiles + 1, 2), f.b)](
        kt, wt, out, scales, f.c, kt.stride(0), kt.stride(2), kt.stride(1), run.size, out.stride(0),
        TILES=tiles, PARTS=m.parts, T=CHANNEL_TILE, BK=run.tiling.inner, num_warps=8, num_stages=3,
    )  # fmt: skip
    return out, x.new_empty(0, dtype=m.storage), f.mean, f.squares


def _product(x: Tensor, z: Tensor, out: Tensor, out_t: Tensor | None, run: Chain) -> None:
    """out = x z^T for rows of x in channel tiles and rows of z in the chain's tiles, and its transpose if asked for."""
    columns = z.shape[2] // run.tiling.tile
    second = out if out_t is None else out_t
    products.product_kernel[(x.shape[2] // CHANNEL_TILE * columns, x.shape[0])](
        x, z, out, second, x.stride(0), z.stride(0), out.stride(0), x.stride(2), z.stride(2), out.stride(2),
        second.stride(2), x.stride(1), z.stride(1), out.stride(1), x.shape[3], columns,
        BOTH=out_t is not None, PARTS=run.mode.parts, TI=CHANNEL_TILE, TJ=run.tiling.tile, BK=run.tiling.inner,
        num_warps=8, num_stages=3,
    )  # fmt: skip


def backward_primal(f: Features, a: Tensor, g: Tensor, iterations: int, postcomp: bool) -> Tensor:
    m = f.mode
    run = Chain(f.b, f.c, iterations, m, f.x)
    norms = lengths(g)
    h, workspace = run.empty(f.b), run.empty(f.b, 8)
    _direction(run, g, norms, a, h, workspace, f.c)
    _, slope, sums = run.pair(a, h, workspace, factor=False)
    del workspace, h
    k, _, trace, _ = f.operands((padded(f.n, run.tiling.tile), run.size), None, 1.0, postcomp)
    factors = (1.0 if postcomp else 0.0, -2.0)
    return _gradient(f, run, (slope, k), None, (k, 1, k.stride(2)), sums, norms, trace, factors, postcomp)


def backward_dual(f: Features, g: Tensor, iterations: int, postcomp: bool) -> Tensor:
    m = f.mode
    run = Chain(f.b, f.n, iterations, m, f.x)
    width = padded(f.c, CHANNEL_TILE)
    k, kt, trace, _ = f.operands((run.size, width), (width, run.size), 1.0, postcomp)
    norms = lengths(g)
    s = k.new_empty(f.b, m.parts, width, width)
    _direction_matrix(g, norms, s, f.c, m)
    kst, ks = torch.empty_like(kt), torch.empty_like(k)
    _product(s, k, kst, ks, run)
    a, h, workspace = run.empty(f.b), run.empty(f.b), run.empty(f.b, 8)
    run.gram(k, k, a, workspace[:, 1], 1.5)
    run.gram(ks, k, h, workspace[:, 5], 0.0)
    p, dp, sums = run.pair(a, h, workspace, factor=True)
    factors = (-1.0 if postcomp else -2.0, -2.0)
    return _gradient(f, run, (kst, p), (kt, dp), (kt, kt.stride(2), 1), sums, norms, trace, factors, postcomp)


def _direction(run: Chain, g: Tensor, norms: Tensor, a: Tensor, h: Tensor, workspace: Tensor, c: int) -> None:
    """The direction of the gradient of a triangle, and the start of the chain with its derivative."""
    m, scale = run.mode, run.mode.direction_scale
    p, dp = workspace[:, 1], workspace[:, 5]
    direction_kernel[(run.items, run.b)](
        g, norms, a, h, p, dp, c, g.stride(0), p.stride(0), scale * m.y_scale, -0.5 * scale, run.half,
        START=True, SIZE=run.size, PARTS=m.parts, T=run.tiling.tile, num_warps=run.tiling.warps,
    )  # fmt: skip


def _direction_matrix(g: Tensor, norms: Tensor, s: Tensor, c: int, m: Mode) -> None:
    """The direction of the gradient of a triangle as a matrix."""
    size = s.shape[2]
    direction_kernel[(math.comb(size // CHANNEL_TILE + 1, 2), s.shape[0])](
        g, norms, s, s, s, s, c, g.stride(0), 0, m.direction_scale, 0.0, 0.0,
        START=False, SIZE=size, PARTS=m.parts, T=CHANNEL_TILE, num_warps=8,
    )  # fmt: skip


def _gradient(
    f: Features, run: Chain, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor] | None,
    k: tuple[Tensor, int, int], sums: Tensor, norms: Tensor, trace: Tensor, factors: tuple[float, float],
    postcomp: bool,
) -> Tensor:  # fmt: skip
    """2 (x z^T + x2 z2^T) + e K in the layout of the features."""
    (x, z), (x2, z2) = first, second or first
    out = torch.empty_like(f.x)
    tile_j = run.tiling.tile
    tile_i = CHANNEL_TILE if second is not None else run.tiling.tile
    columns = triton.cdiv(f.n, tile_j)
    features_k, row, column = k
    products.gradient_kernel[(triton.cdiv(f.c, tile_i) * columns, f.b)](
        x, z, x2, z2, features_k, f.x if f.w is None else f.w, sums, norms, trace, out,
        x.stride(0), z.stride(0), x2.stride(0), z2.stride(0), features_k.stride(0), row, column,
        x.stride(2), z.stride(2), x2.stride(2), z2.stride(2), x.stride(1), z.stride(1), x2.stride(1), z2.stride(1),
        features_k.stride(1), x.shape[3], x2.shape[3], f.n, f.c, *out.stride(), columns,
        1 / (run.mode.direction_scale * run.mode.k_scale), *factors, run.items, TINY, math.sqrt(f.n),
        SECOND=second is not None, WEIGHTED=f.w is not None, COMPENSATED=postcomp,
        ITEMS=triton.next_power_of_2(run.items), PARTS=run.mode.parts, TI=tile_i, TJ=tile_j, BK=run.tiling.inner,
        num_warps=8, num_stages=3,
    )  # fmt: skip
    return out


@torch.library.custom_op("covpool::isqrt_forward", mutates_args=())
def forward(
    x: Tensor, w: Tensor | None, form: str, iterations: int, postcomp: bool, precision: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The triangle of the result (b, c (c + 1) / 2), and what the backward needs: A or nothing, mean, squares.

    Args:
        x: features (b, n, c), any strides.
        w: weights (b, n) that sum to one, or None.
        form: "primal" or "dual".
        iterations: N, 2 to 9.
        postcomp: multiply by sqrt(t).
        precision: a `Precision`.
    """
    run = forward_primal if form == "primal" else forward_dual
    out, a, mean, squares = run(x, w, iterations, mode(precision, iterations), postcomp)
    return out, a, mean, squares


@forward.register_fake
def _(
    x: Tensor, w: Tensor | None, form: str, iterations: int, postcomp: bool, precision: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    b, _, c = x.shape
    run = Chain(b, c, iterations, mode(precision, iterations), x)
    a = run.empty(b) if form == "primal" else x.new_empty(0, dtype=run.mode.storage)
    moments = torch.float32
    blocks = triton.cdiv(c, CHANNEL_BLOCK)
    return (
        x.new_empty(b, triangle(c), dtype=moments),
        a,
        x.new_empty(b, c, dtype=moments),
        x.new_empty(b, blocks, dtype=moments),
    )


@torch.library.custom_op("covpool::isqrt_backward", mutates_args=())
def backward(
    x: Tensor, w: Tensor | None, a: Tensor, mean: Tensor, squares: Tensor, g: Tensor,
    form: str, iterations: int, postcomp: bool, precision: str,
) -> Tensor:  # fmt: skip
    """The gradient in x from that of the triangle."""
    f = Features(x, w, mode(precision, iterations), (mean, squares))
    if form == "primal":
        return backward_primal(f, a, g.contiguous(), iterations, postcomp)
    return backward_dual(f, g.contiguous(), iterations, postcomp)


@backward.register_fake
def _(
    x: Tensor, w: Tensor | None, a: Tensor, mean: Tensor, squares: Tensor, g: Tensor,
    form: str, iterations: int, postcomp: bool, precision: str,
) -> Tensor:  # fmt: skip
    return torch.empty_like(x)


fold_vmap(forward, outputs=4)
fold_vmap(backward, outputs=1)
