"""Kernels that turn matrices and gradients into operands of the chain, and the chain's derivative into a gradient.

They take the symmetric part of matrices and gradients, tile by tile, as they read them.
"""

import triton
import triton.language as tl

from covpool.kernels.tiles import (
    add_diagonal,
    load_operand,
    store_matrix,
    store_symmetric,
    tile_pointers,
    upper_tile,
)

# fmt: off

DIAGONAL_BLOCK = tl.constexpr(256)  # entries of the diagonal at a time


@triton.jit
def symmetric_tile(s, i, j, c, stride_i, stride_j, T: tl.constexpr):
    """Tile (i, j) of the symmetric part of a c x c matrix, zero outside."""
    rows = (i * T + tl.arange(0, T)).to(tl.int64)
    columns = (j * T + tl.arange(0, T)).to(tl.int64)
    inside = (rows[:, None] < c) & (columns[None, :] < c)
    upper = tl.load(s + rows[:, None] * stride_i + columns[None, :] * stride_j, mask=inside, other=0.0)
    lower = tl.load(s + columns[:, None] * stride_i + rows[None, :] * stride_j, mask=tl.trans(inside), other=0.0)
    return upper * 0.5 + tl.trans(lower) * 0.5


@triton.jit
def trace_of_matrix(s, c, stride):
    """The trace of a c x c matrix. `stride` is the distance between entries of its diagonal."""
    total = tl.zeros((DIAGONAL_BLOCK,), tl.float32)
    for start in range(0, c, DIAGONAL_BLOCK):
        index = start + tl.arange(0, DIAGONAL_BLOCK)
        total += tl.load(s + index.to(tl.int64) * stride, mask=index < c, other=0.0)
    return tl.sum(total, 0)


@triton.jit
def normalize_kernel(s, a, traces, scales, counters, c, stride_b, stride_i, stride_j, tiny, a_scale, factor,
                     COMPENSATED: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """Store a_scale A, A = s / t with t the trace, padded with zeros; t; and the scale of the result.

    The scale is factor sqrt(t), or factor without post-compensation. Where the trace is below `tiny`, A is zero. The
    chain's counters are cleared.
    """
    matrix = tl.program_id(1).to(tl.int64)
    i, j = upper_tile(tl.program_id(0), SIZE // T)
    s += matrix * stride_b
    t = trace_of_matrix(s, c, tl.cast(stride_i, tl.int64) + stride_j)
    if tl.program_id(0) == 0:
        tl.store(counters + matrix, 0)
        tl.store(traces + matrix, t)
        tl.store(scales + matrix, tl.sqrt(t) * factor if COMPENSATED else t * 0.0 + factor)
    zero = tl.abs(t) < tiny
    tile = symmetric_tile(s, i, j, c, stride_i, stride_j, T) / tl.where(zero, 1.0, t)
    tile = tl.where(zero, 0.0, tile * a_scale)
    store_symmetric(a + matrix * (SIZE * SIZE * PARTS), i, j, tile, SIZE, PARTS, T)


@triton.jit
def squares_of_tiles_kernel(g, squares, c, stride_b, stride_i, stride_j, items, SIZE: tl.constexpr, T: tl.constexpr):
    """Sum the squares of each tile of the symmetric part of g, together with its transpose.

    The sum is in float64, because the squares of small entries underflow in float32.
    """
    matrix = tl.program_id(1).to(tl.int64)
    item = tl.program_id(0)
    i, j = upper_tile(item, SIZE // T)
    value = symmetric_tile(g + matrix * stride_b, i, j, c, stride_i, stride_j, T).to(tl.float64)
    total = tl.sum(tl.sum(value * value, 1), 0)
    tl.store(squares + matrix * items + item, tl.where(i == j, total, 2 * total))


@triton.jit
def matrix_direction_kernel(g, squares, norms, h, c, stride_b, stride_i, stride_j, items, scale,
                            ITEMS: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """Store scale H, where H is the symmetric part of g divided by its norm, padded with zeros; and store the norm."""
    matrix = tl.program_id(1).to(tl.int64)
    i, j = upper_tile(tl.program_id(0), SIZE // T)
    index = tl.arange(0, ITEMS)
    norm = tl.sqrt(tl.sum(tl.load(squares + matrix * items + index, mask=index < items, other=0.0), 0)).to(tl.float32)
    if tl.program_id(0) == 0:
        tl.store(norms + matrix, norm)
    value = symmetric_tile(g + matrix * stride_b, i, j, c, stride_i, stride_j, T) / tl.where(norm == 0.0, 1.0, norm)
    store_symmetric(h + matrix * (SIZE * SIZE * PARTS), i, j, value * scale, SIZE, PARTS, T)


@triton.jit
def matrix_gradient_kernel(slope, sums, norms, traces, out, c, undo, value_factor, tiny, items,
                           COMPENSATED: tl.constexpr, ITEMS: tl.constexpr,
                           SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """dF + (value_factor <H, F> - <dF, A>) I, with the scales of the direction and of the matrix undone."""
    matrix = tl.program_id(1).to(tl.int64)
    i, j = upper_tile(tl.program_id(0), SIZE // T)
    index = tl.arange(0, ITEMS)
    sums += matrix * (2 * items)
    value = tl.sum(tl.load(sums + 2 * index, mask=index < items, other=0.0), 0)
    inner = tl.sum(tl.load(sums + 2 * index + 1, mask=index < items, other=0.0), 0)
    tile = load_operand(tile_pointers(slope + matrix * (SIZE * SIZE * PARTS), i, j, SIZE, T, T), SIZE * SIZE, PARTS)
    tile = add_diagonal(tile, i, j, value_factor * value - inner, T) * (undo * tl.load(norms + matrix))
    t = tl.load(traces + matrix)
    zero = tl.abs(t) < tiny
    t = tl.where(zero, 1.0, t)
    tile = tl.where(zero, 0.0, tile / (tl.sqrt(t) if COMPENSATED else t))
    store_matrix(out + matrix * c * c, i, j, tile, c, T)
