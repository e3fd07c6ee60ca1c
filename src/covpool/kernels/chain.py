"""The Newton-Schulz chain on stored symmetric matrices: the value, and the value with its derivative in a direction.

One program runs the whole chain of one matrix, or, when there are few matrices, each step is a launch of its own with
one program per tile. Both run the same step: a range of tiles of one product, in a single loop over tiles and inner
blocks, so that the loads of the next tile overlap the end of the last. Slots of the workspace take turns: Y, P, T and a
free one.
"""

import triton
import triton.language as tl

from covpool.kernels.tiles import (
    add_diagonal,
    load_operand,
    step_nt,
    step_pair_nt,
    store_symmetric,
    tile_pointers,
    triangle_offsets,
    upper_tile,
)

# fmt: off

PLAIN = tl.constexpr(0)  # x z
HALVED = tl.constexpr(1)  # 3/2 I - half x z
TRIANGLE = tl.constexpr(2)  # scale x z, the upper triangle as a float32 vector
MATRIX = tl.constexpr(3)  # scale x z as a float32 matrix


@triton.jit
def store_value(out, i, j, acc, scale, c,
                KIND: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """Store tile (i, j) of a product as its kind says."""
    if KIND == TRIANGLE:
        offsets, inside = triangle_offsets(i, j, c, T)
        tl.store(out + offsets, acc * scale, mask=inside)
    elif KIND == MATRIX:
        rows = i * T + tl.arange(0, T)
        columns = j * T + tl.arange(0, T)
        inside = (rows[:, None] < c) & (columns[None, :] < c)
        tl.store(tile_pointers(out, i, j, c, T, T), acc * scale, mask=inside)
        if i != j:
            tl.store(tile_pointers(out, j, i, c, T, T), tl.trans(acc * scale), mask=tl.trans(inside))
    elif KIND == HALVED:
        store_symmetric(out, i, j, add_diagonal(acc * -scale, i, j, 1.5, T), SIZE, PARTS, T)
    else:
        store_symmetric(out, i, j, acc, SIZE, PARTS, T)


@triton.jit
def value_step(x, z, out, scale, c, first, last,
               KIND: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Tiles first to last - 1 of a product."""
    BLOCKS: tl.constexpr = SIZE // BK
    acc = tl.zeros((T, T), tl.float32)
    for index in range(first * BLOCKS, last * BLOCKS):
        i, j = upper_tile(index // BLOCKS, SIZE // T)
        block = index % BLOCKS
        rows = tile_pointers(x, i, 0, SIZE, T, BK) + block * BK
        columns = tile_pointers(z, j, 0, SIZE, T, BK) + block * BK
        acc = step_nt(rows, columns, acc, SIZE * SIZE, SIZE * SIZE, PARTS, APART=SIZE > T)
        if block == BLOCKS - 1:
            store_value(out, i, j, acc, scale, c, KIND, SIZE, PARTS, T)
            acc = tl.zeros((T, T), tl.float32)


@triton.jit
def chain_kernel(a, workspace, out, scales, c, out_stride, half, iterations,
                 LAST: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """The whole chain of matrix program_id(0). On entry slot 1 holds P_1 = T_1. LAST is PLAIN for the factor P_N."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    ITEMS: tl.constexpr = (SIZE // T) * (SIZE // T + 1) // 2
    matrix = tl.program_id(0).to(tl.int64)
    a += matrix * AREA
    workspace += matrix * (4 * AREA)
    out += matrix * out_stride
    scale = tl.load(scales + matrix)
    t = workspace + 2 * AREA
    y = 0
    p = 1
    free = 3
    value_step(a, workspace + p * AREA, workspace + y * AREA, half, c, 0, ITEMS, PLAIN, SIZE, PARTS, T, BK)
    tl.debug_barrier()
    for _ in range(iterations - 2):
        value_step(workspace + p * AREA, workspace + y * AREA, t, half, c, 0, ITEMS, HALVED, SIZE, PARTS, T, BK)
        tl.debug_barrier()
        value_step(workspace + y * AREA, t, workspace + free * AREA, half, c, 0, ITEMS, PLAIN, SIZE, PARTS, T, BK)
        tl.debug_barrier()
        value_step(t, workspace + p * AREA, workspace + y * AREA, half, c, 0, ITEMS, PLAIN, SIZE, PARTS, T, BK)
        tl.debug_barrier()
        previous = p
        p = y
        y = free
        free = previous
    value_step(workspace + p * AREA, workspace + y * AREA, t, half, c, 0, ITEMS, HALVED, SIZE, PARTS, T, BK)
    tl.debug_barrier()
    multiplied = p if LAST == PLAIN else y
    value_step(workspace + multiplied * AREA, t, out, scale, c, 0, ITEMS, LAST, SIZE, PARTS, T, BK)


@triton.jit
def value_step_kernel(x, z, out, scales, c, x_stride, z_stride, out_stride, half,
                      KIND: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """One step for all matrices, one program per tile."""
    matrix = tl.program_id(1).to(tl.int64)
    item = tl.program_id(0)
    scale = half
    if (KIND == TRIANGLE) or (KIND == MATRIX):
        scale = tl.load(scales + matrix)
    value_step(x + matrix * x_stride, z + matrix * z_stride, out + matrix * out_stride, scale, c, item, item + 1,
               KIND, SIZE, PARTS, T, BK)


@triton.jit
def store_pair(out, dout, i, j, acc, dacc, half,
               KIND: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """Store tile (i, j) of a product and of its derivative."""
    if KIND == HALVED:
        acc = add_diagonal(acc * -half, i, j, 1.5, T)
        dacc = dacc * -half
    store_symmetric(out, i, j, acc, SIZE, PARTS, T)
    store_symmetric(dout, i, j, dacc, SIZE, PARTS, T)


@triton.jit
def pair_step(x, dx, z, dz, out, dout, half, first, last,
              KIND: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Tiles first to last - 1 of a product and of its derivative."""
    BLOCKS: tl.constexpr = SIZE // BK
    acc = tl.zeros((T, T), tl.float32)
    dacc = tl.zeros((T, T), tl.float32)
    for index in range(first * BLOCKS, last * BLOCKS):
        i, j = upper_tile(index // BLOCKS, SIZE // T)
        block = index % BLOCKS
        rows = tile_pointers(x, i, 0, SIZE, T, BK) + block * BK
        drows = tile_pointers(dx, i, 0, SIZE, T, BK) + block * BK
        columns = tile_pointers(z, j, 0, SIZE, T, BK) + block * BK
        dcolumns = tile_pointers(dz, j, 0, SIZE, T, BK) + block * BK
        acc, dacc = step_pair_nt(rows, drows, columns, dcolumns, acc, dacc, SIZE * SIZE, PARTS, APART=SIZE > T)
        if block == BLOCKS - 1:
            store_pair(out, dout, i, j, acc, dacc, half, KIND, SIZE, PARTS, T)
            acc = tl.zeros((T, T), tl.float32)
            dacc = tl.zeros((T, T), tl.float32)


@triton.jit
def inner_product(base, i, j, value, scale, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """The share of tile (i, j), and of its mirror image, in <value, scale base> of a stored symmetric matrix."""
    tile = load_operand(tile_pointers(base, i, j, SIZE, T, T), SIZE * SIZE, PARTS)
    return tl.sum(tl.sum(value * tile, 1), 0) * scale * tl.where(i == j, 1.0, 2.0)


@triton.jit
def store_last_pair(a, h, f, df, sums, item, i, j, acc, dacc, f_scale, a_scale,
                    FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """Store tile (i, j) of dF (and of F for the factor), with its share of <H, F> and <dF, A>."""
    acc = acc * f_scale
    dacc = dacc * f_scale
    tl.store(sums + 2 * item, inner_product(h, i, j, acc, a_scale, SIZE, PARTS, T))
    tl.store(sums + 2 * item + 1, inner_product(a, i, j, dacc, a_scale, SIZE, PARTS, T))
    store_symmetric(df, i, j, dacc, SIZE, PARTS, T)
    if FACTOR:
        store_symmetric(f, i, j, acc, SIZE, PARTS, T)


@triton.jit
def last_pair_step(x, dx, z, dz, a, h, f, df, sums, f_scale, a_scale, first, last,
                   FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Tiles first to last - 1 of the last product and of its derivative."""
    for item in range(first, last):
        i, j = upper_tile(item, SIZE // T)
        acc = tl.zeros((T, T), tl.float32)
        dacc = tl.zeros((T, T), tl.float32)
        for block in range(SIZE // BK):
            acc, dacc = step_pair_nt(
                tile_pointers(x, i, 0, SIZE, T, BK) + block * BK, tile_pointers(dx, i, 0, SIZE, T, BK) + block * BK,
                tile_pointers(z, j, 0, SIZE, T, BK) + block * BK, tile_pointers(dz, j, 0, SIZE, T, BK) + block * BK,
                acc, dacc, SIZE * SIZE, PARTS, APART=SIZE > T)
        store_last_pair(a, h, f, df, sums, item, i, j, acc, dacc, f_scale, a_scale, FACTOR, SIZE, PARTS, T)


@triton.jit
def pair_chain_kernel(a, h, workspace, f, df, sums, half, f_scale, a_scale, iterations,
                      FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """The whole chain of matrix program_id(0) with its derivative. On entry slot 1 holds P_1, slot 5 its derivative."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    ITEMS: tl.constexpr = (SIZE // T) * (SIZE // T + 1) // 2
    matrix = tl.program_id(0).to(tl.int64)
    a += matrix * AREA
    h += matrix * AREA
    f += matrix * AREA
    df += matrix * AREA
    sums += matrix * (2 * ITEMS)
    v = workspace + matrix * (8 * AREA)
    d = v + 4 * AREA
    t = v + 2 * AREA
    dt = d + 2 * AREA
    y = 0
    p = 1
    free = 3
    pair_step(a, h, v + p * AREA, d + p * AREA, v + y * AREA, d + y * AREA, half, 0, ITEMS, PLAIN, SIZE, PARTS, T, BK)
    tl.debug_barrier()
    for _ in range(iterations - 2):
        pair_step(v + p * AREA, d + p * AREA, v + y * AREA, d + y * AREA, t, dt, half, 0, ITEMS,
                  HALVED, SIZE, PARTS, T, BK)
        tl.debug_barrier()
        pair_step(v + y * AREA, d + y * AREA, t, dt, v + free * AREA, d + free * AREA, half, 0, ITEMS,
                  PLAIN, SIZE, PARTS, T, BK)
        tl.debug_barrier()
        pair_step(t, dt, v + p * AREA, d + p * AREA, v + y * AREA, d + y * AREA, half, 0, ITEMS,
                  PLAIN, SIZE, PARTS, T, BK)
        tl.debug_barrier()
        previous = p
        p = y
        y = free
        free = previous
    pair_step(v + p * AREA, d + p * AREA, v + y * AREA, d + y * AREA, t, dt, half, 0, ITEMS, HALVED, SIZE, PARTS, T, BK)
    tl.debug_barrier()
    multiplied = p if FACTOR else y
    last_pair_step(v + multiplied * AREA, d + multiplied * AREA, t, dt, a, h, f, df, sums, f_scale, a_scale, 0, ITEMS,
                   FACTOR, SIZE, PARTS, T, BK)


@triton.jit
def pair_step_kernel(x, dx, z, dz, out, dout, x_stride, z_stride, out_stride, half,
                     KIND: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """One step with its derivative for all matrices, one program per tile."""
    matrix = tl.program_id(1).to(tl.int64)
    item = tl.program_id(0)
    pair_step(x + matrix * x_stride, dx + matrix * x_stride, z + matrix * z_stride, dz + matrix * z_stride,
              out + matrix * out_stride, dout + matrix * out_stride, half, item, item + 1, KIND, SIZE, PARTS, T, BK)


@triton.jit
def last_pair_step_kernel(x, dx, z, dz, a, h, f, df, sums, stride, f_scale, a_scale,
                          FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr,
                          BK: tl.constexpr):
    """The last step with its derivative for all matrices, one program per tile."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    ITEMS: tl.constexpr = (SIZE // T) * (SIZE // T + 1) // 2
    matrix = tl.program_id(1).to(tl.int64)
    item = tl.program_id(0)
    at = matrix * AREA
    last_pair_step(x + matrix * stride, dx + matrix * stride, z + matrix * stride, dz + matrix * stride, a + at, h + at,
                   f + at, df + at, sums + matrix * (2 * ITEMS), f_scale, a_scale, item, item + 1,
                   FACTOR, SIZE, PARTS, T, BK)
