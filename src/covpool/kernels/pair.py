"""The chain of `chain` together with its derivative in a direction, by the same steps and the same two ways."""

import triton
import triton.language as tl

from covpool.kernels.chain import started, store_iterate
from covpool.kernels.iteration import coefficients, last_operands, operands, step_of
from covpool.kernels.tiles import (
    load_operand,
    step_pair_nt,
    store_symmetric,
    tile_pointers,
    upper_tile,
)

# fmt: off


@triton.jit
def product_pair(x, dx, z, dz, i, j, acc, dacc,
                 SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """acc + tile (i, j) of x z, and dacc + that of dx z + x dz."""
    rows = tile_pointers(x, i, 0, SIZE, T, BK)
    drows = tile_pointers(dx, i, 0, SIZE, T, BK)
    columns = tile_pointers(z, j, 0, SIZE, T, BK)
    dcolumns = tile_pointers(dz, j, 0, SIZE, T, BK)
    for block in range(SIZE // BK):
        at = block * BK
        acc, dacc = step_pair_nt(rows + at, drows + at, columns + at, dcolumns + at, acc, dacc, SIZE * SIZE, PARTS,
                                 APART=SIZE > T)
    return acc, dacc


@triton.jit
def pair_step(a, h, workspace, index, steps, a_scale, first, last,
              FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Tiles first to last - 1 of the index-th product and of its derivative, which has the second half of the slots."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    step, pair = step_of(index, steps)
    x, z, d, out = operands(a, workspace, step, pair, AREA, FACTOR)
    dx, dz, dd, dout = operands(h, workspace + 4 * AREA, step, pair, AREA, FACTOR)
    alpha, beta, gamma = coefficients(step, pair, a_scale)
    for item in range(first, last):
        i, j = upper_tile(item, SIZE // T)
        acc = started(d, i, j, beta / alpha, SIZE, PARTS, T)
        dacc = started(dd, i, j, beta / alpha, SIZE, PARTS, T)
        acc, dacc = product_pair(x, dx, z, dz, i, j, acc, dacc, SIZE, PARTS, T, BK)
        store_iterate(out, i, j, acc, alpha, gamma, SIZE, PARTS, T)
        store_symmetric(dout, i, j, dacc * alpha, SIZE, PARTS, T)  # I has no part in a derivative


@triton.jit
def inner_product(base, i, j, value, scale, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """The share of tile (i, j), and of its mirror image, in <value, scale base> of a stored symmetric matrix."""
    tile = load_operand(tile_pointers(base, i, j, SIZE, T, T), SIZE * SIZE, PARTS)
    return tl.sum(tl.sum(value * tile, 1), 0) * scale * tl.where(i == j, 1.0, 2.0)


@triton.jit
def last_pair_step(a, h, workspace, f, df, sums, iterations, f_scale, a_scale, first, last,
                   FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Tiles first to last - 1 of dF (and of F for the factor), with their shares of <H, F> and <dF, A>."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    x, z = last_operands(workspace, iterations, AREA, FACTOR)
    dx, dz = last_operands(workspace + 4 * AREA, iterations, AREA, FACTOR)
    for item in range(first, last):
        i, j = upper_tile(item, SIZE // T)
        zero = tl.zeros((T, T), tl.float32)
        acc, dacc = product_pair(x, dx, z, dz, i, j, zero, zero, SIZE, PARTS, T, BK)
        acc = acc * f_scale
        dacc = dacc * f_scale
        tl.store(sums + 2 * item, inner_product(h, i, j, acc, 1 / a_scale, SIZE, PARTS, T))
        tl.store(sums + 2 * item + 1, inner_product(a, i, j, dacc, 1 / a_scale, SIZE, PARTS, T))
        store_symmetric(df, i, j, dacc, SIZE, PARTS, T)
        if FACTOR:
            store_symmetric(f, i, j, acc, SIZE, PARTS, T)


@triton.jit
def pair_chain_kernel(a, h, workspace, f, df, sums, iterations, steps, f_scale, a_scale,
                      FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """The whole chain of matrix program_id(0) with its derivative in the direction h."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    ITEMS: tl.constexpr = (SIZE // T) * (SIZE // T + 1) // 2
    matrix = tl.program_id(0).to(tl.int64)
    at = matrix * AREA
    workspace += matrix * (8 * AREA)
    for index in range(steps):
        pair_step(a + at, h + at, workspace, index, steps, a_scale, 0, ITEMS, FACTOR, SIZE, PARTS, T, BK)
        tl.debug_barrier()
    last_pair_step(a + at, h + at, workspace, f + at, df + at, sums + matrix * (2 * ITEMS), iterations,
                   f_scale, a_scale, 0, ITEMS, FACTOR, SIZE, PARTS, T, BK)


@triton.jit(do_not_specialize=["index"])
def pair_step_kernel(a, h, workspace, index, steps, a_scale,
                     FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """One step with its derivative for all matrices, one program per tile."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    matrix = tl.program_id(1).to(tl.int64)
    item = tl.program_id(0)
    pair_step(a + matrix * AREA, h + matrix * AREA, workspace + matrix * (8 * AREA), index, steps, a_scale,
              item, item + 1, FACTOR, SIZE, PARTS, T, BK)


@triton.jit
def last_pair_step_kernel(a, h, workspace, f, df, sums, iterations, f_scale, a_scale,
                          FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr,
                          BK: tl.constexpr):
    """The last step with its derivative for all matrices, one program per tile."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    ITEMS: tl.constexpr = (SIZE // T) * (SIZE // T + 1) // 2
    matrix = tl.program_id(1).to(tl.int64)
    item = tl.program_id(0)
    at = matrix * AREA
    last_pair_step(a + at, h + at, workspace + 8 * at, f + at, df + at, sums + matrix * (2 * ITEMS), iterations,
                   f_scale, a_scale, item, item + 1, FACTOR, SIZE, PARTS, T, BK)
