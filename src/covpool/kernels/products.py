"""Batched products x z^T around the chain: Gram matrices, the factor applied to features, and the gradient in x."""

import triton
import triton.language as tl

from covpool.kernels.features import reciprocal_root, trace_of
from covpool.kernels.tiles import (
    load_operand,
    product_nt,
    store_matrix,
    store_operand,
    store_symmetric,
    tile_pointers,
    triangle_offsets,
    upper_tile,
)

# fmt: off


@triton.jit
def gram_kernel(x, z, a, counters, stride, ld, part, inner, scale,
                SIZE: tl.constexpr, T: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr):
    """Store the symmetric a = scale x z^T and clear the chain's counters."""
    matrix = tl.program_id(1).to(tl.int64)
    if tl.program_id(0) == 0:
        tl.store(counters + matrix, 0)
    i, j = upper_tile(tl.program_id(0), SIZE // T)
    acc = product_nt(x + matrix * stride, z + matrix * stride, i, j, ld, ld, part, part, inner, PARTS, T, T, BK)
    store_symmetric(a + matrix * (SIZE * SIZE * PARTS), i, j, acc * scale, SIZE, PARTS, T)


@triton.jit
def product_kernel(x, z, out, out_t, x_stride, z_stride, out_stride, ld_x, ld_z, ld_out, ld_out_t,
                   x_part, z_part, out_part, inner, columns,
                   BOTH: tl.constexpr, TI: tl.constexpr, TJ: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr):
    """Store x z^T, and its transpose too if BOTH."""
    matrix = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) // columns
    j = tl.program_id(0) % columns
    acc = product_nt(x + matrix * x_stride, z + matrix * z_stride, i, j, ld_x, ld_z, x_part, z_part, inner,
                     PARTS, TI, TJ, BK)
    store_operand(tile_pointers(out + matrix * out_stride, i, j, ld_out, TI, TJ), acc, out_part, None, PARTS)
    if BOTH:
        pointers = tile_pointers(out_t + matrix * out_stride, j, i, ld_out_t, TJ, TI)
        store_operand(pointers, tl.trans(acc), out_part, None, PARTS)


@triton.jit
def triangle_kernel(x, z, out, scales, c, stride, ld, part, inner, out_stride,
                    TILES: tl.constexpr, T: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr):
    """Store the upper triangle of scale x z^T as a vector."""
    matrix = tl.program_id(1).to(tl.int64)
    i, j = upper_tile(tl.program_id(0), TILES)
    acc = product_nt(x + matrix * stride, z + matrix * stride, i, j, ld, ld, part, part, inner, PARTS, T, T, BK)
    offsets, inside = triangle_offsets(i, j, c, T)
    tl.store(out + matrix * out_stride + offsets, acc * tl.load(scales + matrix), mask=inside)


@triton.jit
def times_deviations(acc, squares, i, j, c, unit, T: tl.constexpr):
    """Tile (i, j) of a matrix times unit s_i and unit s_j, the standard deviations of its row and column."""
    rows = i * T + tl.arange(0, T)
    columns = j * T + tl.arange(0, T)
    acc = acc * (unit * tl.sqrt(tl.load(squares + rows, mask=rows < c, other=0.0)))[:, None]
    return acc * (unit * tl.sqrt(tl.load(squares + columns, mask=columns < c, other=0.0)))[None, :]


@triton.jit
def whitened_gram_kernel(k, squares, a, counters, scales, c, stride, ld, part, inner, tiny, unit, a_scale, factor,
                         COMPENSATED: tl.constexpr, CHANNELS: tl.constexpr,
                         SIZE: tl.constexpr, T: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr):
    """Store a_scale A, the covariance of whitened k divided by its trace t; clear the chain's counters.

    Also store the scale of the result: factor sqrt(t), or factor without post-compensation.
    """
    matrix = tl.program_id(1).to(tl.int64)
    t = trace_of(squares, matrix, c, CHANNELS)
    if tl.program_id(0) == 0:
        tl.store(counters + matrix, 0)
        tl.store(scales + matrix, tl.sqrt(t) * factor if COMPENSATED else t * 0.0 + factor)
    i, j = upper_tile(tl.program_id(0), SIZE // T)
    k += matrix * stride
    acc = product_nt(k, k, i, j, ld, ld, part, part, inner, PARTS, T, T, BK)
    acc = times_deviations(acc, squares + matrix * c, i, j, c, unit * reciprocal_root(t, tiny), T)
    store_symmetric(a + matrix * (SIZE * SIZE * PARTS), i, j, acc * a_scale, SIZE, PARTS, T)


@triton.jit
def covariance_kernel(k, squares, out, c, stride, ld, part, inner, out_stride, unit,
                      FULL: tl.constexpr, TILES: tl.constexpr, T: tl.constexpr, BK: tl.constexpr,
                      PARTS: tl.constexpr):
    """Store the covariance of whitened k, as the upper triangle or as a FULL matrix."""
    matrix = tl.program_id(1).to(tl.int64)
    i, j = upper_tile(tl.program_id(0), TILES)
    k += matrix * stride
    acc = product_nt(k, k, i, j, ld, ld, part, part, inner, PARTS, T, T, BK)
    acc = times_deviations(acc, squares + matrix * c, i, j, c, unit, T)
    if FULL:
        if i == j:  # rounding depends on the order of the factors
            acc = (acc + tl.trans(acc)) * 0.5
        store_matrix(out + matrix * out_stride, i, j, acc, c, T)
    else:
        offsets, inside = triangle_offsets(i, j, c, T)
        tl.store(out + matrix * out_stride + offsets, acc, mask=inside)


@triton.jit
def gradient_kernel(x, z, x2, z2, k, w, sums, norms, traces, out,
                    x_stride, z_stride, x2_stride, z2_stride, k_stride, k_row, k_column, ld_x, ld_z, ld_x2, ld_z2,
                    x_part, z_part, x2_part, z2_part, k_part, inner, inner2, n, c, out_b, out_n, out_c, columns,
                    undo, value_factor, slope_factor, items, tiny, root_n,
                    SECOND: tl.constexpr, WEIGHTED: tl.constexpr, ROOTS: tl.constexpr, ITEMS: tl.constexpr,
                    TI: tl.constexpr, TJ: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr):
    """Store tile (channels i, positions j) of the gradient in x: 2 (x z^T + x2 z2^T) + e K, mapped back to features.

    e = value_factor <H, F> + slope_factor <dF, A>, from the sums that the chain stored; zero for ITEMS = 0. `undo` and
    the norm undo the scale of the direction. The result is multiplied by t^(ROOTS / 2) for the trace t.
    """
    matrix = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) // columns
    j = tl.program_id(0) % columns
    acc = product_nt(x + matrix * x_stride, z + matrix * z_stride, i, j, ld_x, ld_z, x_part, z_part, inner,
                     PARTS, TI, TJ, BK)
    if SECOND:
        acc += product_nt(x2 + matrix * x2_stride, z2 + matrix * z2_stride, i, j, ld_x2, ld_z2, x2_part, z2_part,
                          inner2, PARTS, TI, TJ, BK)
    channels = i * TI + tl.arange(0, TI)
    positions = j * TJ + tl.arange(0, TJ)
    result = 2 * acc
    if ITEMS > 0:
        index = tl.arange(0, ITEMS)
        value = tl.sum(tl.load(sums + matrix * (2 * items) + 2 * index, mask=index < items, other=0.0), 0)
        slope = tl.sum(tl.load(sums + matrix * (2 * items) + 2 * index + 1, mask=index < items, other=0.0), 0)
        k_pointers = (k + matrix * k_stride + channels[:, None].to(tl.int64) * k_row
                      + positions[None, :].to(tl.int64) * k_column)
        result += (value_factor * value + slope_factor * slope) * load_operand(k_pointers, k_part, PARTS)
    scale = undo * tl.load(norms + matrix)
    if ROOTS == 1:
        scale = scale * tl.sqrt(tl.load(traces + matrix))
    elif ROOTS == -1:
        scale = scale * reciprocal_root(tl.load(traces + matrix), tiny)
    if WEIGHTED:
        weight = tl.load(w + matrix * n + positions, mask=positions < n, other=0.0)
        result = result * tl.sqrt(weight)[None, :]
    else:
        scale = scale / root_n
    inside = (channels[:, None] < c) & (positions[None, :] < n)
    pointers = (out + matrix * out_b + positions[None, :].to(tl.int64) * out_n
                + channels[:, None].to(tl.int64) * out_c)
    tl.store(pointers, result * scale, mask=inside)
