"""The chain of `iteration` on stored symmetric matrices, through memory.

One program runs the whole chain of one matrix, or, when there are few matrices, each step is a launch of its own with
one program per tile. Both run the same step: a range of tiles of one product.
"""

import triton
import triton.language as tl

from covpool.kernels.iteration import coefficients, last_operands, operands, step_of
from covpool.kernels.tiles import (
    add_diagonal,
    load_operand,
    step_nt,
    store_matrix,
    store_symmetric,
    tile_pointers,
    triangle_offsets,
    upper_tile,
)

# fmt: off

OPERAND = tl.constexpr(0)  # stored as what is multiplied
TRIANGLE = tl.constexpr(1)  # the upper triangle as a float32 vector
MATRIX = tl.constexpr(2)  # a float32 matrix


@triton.jit
def started(d, i, j, amount, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """What tile (i, j) of a product is added to: amount D, for a stored D."""
    if amount == 0.0:
        acc = tl.zeros((T, T), tl.float32)
    else:
        acc = load_operand(tile_pointers(d, i, j, SIZE, T, T), SIZE * SIZE, PARTS) * amount
    return acc


@triton.jit
def store_iterate(out, i, j, acc, alpha, gamma, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """Store tile (i, j) of alpha acc + gamma I."""
    store_symmetric(out, i, j, add_diagonal(acc * alpha, i, j, gamma, T), SIZE, PARTS, T)


@triton.jit
def product_tile(x, z, i, j, acc, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """acc + tile (i, j) of x z."""
    rows = tile_pointers(x, i, 0, SIZE, T, BK)
    columns = tile_pointers(z, j, 0, SIZE, T, BK)
    for block in range(SIZE // BK):
        acc = step_nt(rows + block * BK, columns + block * BK, acc, SIZE * SIZE, SIZE * SIZE, PARTS, APART=SIZE > T)
    return acc


@triton.jit
def value_step(a, workspace, index, steps, a_scale, first, last,
               FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Tiles first to last - 1 of the index-th product."""
    step, pair = step_of(index, steps)
    x, z, d, out = operands(a, workspace, step, pair, SIZE * SIZE * PARTS, FACTOR)
    alpha, beta, gamma = coefficients(step, pair, a_scale)
    for item in range(first, last):
        i, j = upper_tile(item, SIZE // T)
        acc = started(d, i, j, beta / alpha, SIZE, PARTS, T)
        acc = product_tile(x, z, i, j, acc, SIZE, PARTS, T, BK)
        store_iterate(out, i, j, acc, alpha, gamma, SIZE, PARTS, T)


@triton.jit
def store_result(out, scale, i, j, value, c,
                 KIND: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """Store tile (i, j) of the result as its kind says, all but an operand times what stands behind `scale`."""
    if KIND != OPERAND:
        value = value * tl.load(scale)
    if KIND == TRIANGLE:
        offsets, inside = triangle_offsets(i, j, c, T)
        tl.store(out + offsets, value, mask=inside)
    elif KIND == MATRIX:
        store_matrix(out, i, j, value, c, T)
    else:
        store_symmetric(out, i, j, value, SIZE, PARTS, T)


@triton.jit
def last_value_step(workspace, out, scale, c, iterations, first, last,
                    KIND: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Tiles first to last - 1 of the last product: of Y_N times its scale, or as an operand of P_N."""
    x, z = last_operands(workspace, iterations, SIZE * SIZE * PARTS, KIND == OPERAND)
    for item in range(first, last):
        i, j = upper_tile(item, SIZE // T)
        acc = product_tile(x, z, i, j, tl.zeros((T, T), tl.float32), SIZE, PARTS, T, BK)
        store_result(out, scale, i, j, acc, c, KIND, SIZE, PARTS, T)


@triton.jit
def chain_kernel(a, workspace, out, scales, c, out_stride, iterations, steps, a_scale,
                 KIND: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """The whole chain of matrix program_id(0)."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    ITEMS: tl.constexpr = (SIZE // T) * (SIZE // T + 1) // 2
    matrix = tl.program_id(0).to(tl.int64)
    workspace += matrix * (4 * AREA)
    for index in range(steps):
        value_step(a + matrix * AREA, workspace, index, steps, a_scale, 0, ITEMS,
                   KIND == OPERAND, SIZE, PARTS, T, BK)
        tl.debug_barrier()
    last_value_step(workspace, out + matrix * out_stride, scales + matrix, c, iterations, 0, ITEMS,
                    KIND, SIZE, PARTS, T, BK)


@triton.jit(do_not_specialize=["index"])
def value_step_kernel(a, workspace, index, steps, a_scale,
                      FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr,
                      BK: tl.constexpr):
    """One step for all matrices, one program per tile."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    matrix = tl.program_id(1).to(tl.int64)
    item = tl.program_id(0)
    value_step(a + matrix * AREA, workspace + matrix * (4 * AREA), index, steps, a_scale, item, item + 1,
               FACTOR, SIZE, PARTS, T, BK)


@triton.jit
def last_value_step_kernel(workspace, out, scales, c, out_stride, iterations,
                           KIND: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr,
                           BK: tl.constexpr):
    """The last step for all matrices, one program per tile."""
    matrix = tl.program_id(1).to(tl.int64)
    item = tl.program_id(0)
    last_value_step(workspace + matrix * (4 * SIZE * SIZE * PARTS), out + matrix * out_stride,
                    scales + matrix, c, iterations, item, item + 1, KIND, SIZE, PARTS, T, BK)
