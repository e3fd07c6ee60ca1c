"""Batched products x z^T around the chain: Gram matrices, the factor applied to features, and the gradient in x."""

import triton
import triton.language as tl

from covpool.kernels.tiles import (
    load_operand,
    product_nt,
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
def gradient_kernel(x, z, x2, z2, k, w, sums, norms, traces, out,
                    x_stride, z_stride, x2_stride, z2_stride, k_stride, k_row, k_column, ld_x, ld_z, ld_x2, ld_z2,
                    x_part, z_part, x2_part, z2_part, k_part, inner, inner2, n, c, out_b, out_n, out_c, columns,
                    undo, value_factor, slope_factor, items, tiny, root_n,
                    SECOND: tl.constexpr, WEIGHTED: tl.constexpr, COMPENSATED: tl.constexpr, ITEMS: tl.constexpr,
                    TI: tl.constexpr, TJ: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr):
    """Store tile (channels i, positions j) of the gradient in x: 2 (x z^T + x2 z2^T) + e K, mapped back to features.

    e = value_factor <H, F> + slope_factor <dF, A>, from the sums that the chain stored. `undo` and the norm undo the
    scale of the direction.
    """
    matrix = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) // columns
    j = tl.program_id(0) % columns
    acc = product_nt(x + matrix * x_stride, z + matrix * z_stride, i, j, ld_x, ld_z, x_part, z_part, inner,
                     PARTS, TI, TJ, BK)
    if SECOND:
        acc += product_nt(x2 + matrix * x2_stride, z2 + matrix * z2_stride, i, j, ld_x2, ld_z2, x2_part, z2_part,
                          inner2, PARTS, TI, TJ, BK)
    index = tl.arange(0, ITEMS)
    value = tl.sum(tl.load(sums + matrix * (2 * items) + 2 * index, mask=index < items, other=0.0), 0)
    slope = tl.sum(tl.load(sums + matrix * (2 * items) + 2 * index + 1, mask=index < items, other=0.0), 0)
    channels = i * TI + tl.arange(0, TI)
    positions = j * TJ + tl.arange(0, TJ)
    k_pointers = (k + matrix * k_stride + channels[:, None].to(tl.int64) * k_row
                  + positions[None, :].to(tl.int64) * k_column)
    features = load_operand(k_pointers, k_part, PARTS)
    result = 2 * acc + (value_factor * value + slope_factor * slope) * features
    scale = undo * tl.load(norms + matrix)
    if not COMPENSATED:
        t = tl.load(traces + matrix)
        scale = scale * tl.where(t < tiny, 0.0, 1.0 / tl.sqrt(tl.where(t < tiny, 1.0, t)))
    if WEIGHTED:
        weight = tl.load(w + matrix * n + positions, mask=positions < n, other=0.0)
        result = result * tl.sqrt(weight)[None, :]
    else:
        scale = scale / root_n
    inside = (channels[:, None] < c) & (positions[None, :] < n)
    pointers = (out + matrix * out_b + positions[None, :].to(tl.int64) * out_n
                + channels[:, None].to(tl.int64) * out_c)
    tl.store(pointers, result * scale, mask=inside)
