"""The Newton-Schulz chain of a matrix that is one tile: its program keeps every iterate on the chip.

Products are x z of symmetric iterates. Only operands of one part fit; the others go through memory, see `chain`.
"""

import triton
import triton.language as tl

from covpool.kernels.chain import PLAIN, inner_product, store_value
from covpool.kernels.tiles import add_diagonal, dot, store_symmetric, tile_pointers

# fmt: off


@triton.jit
def product(x, z):
    """x z in float32."""
    return dot(x, z, tl.zeros((x.shape[0], z.shape[1]), tl.float32))


@triton.jit
def slope(x, dx, z, dz):
    """The derivative dx z + x dz of a product in float32."""
    return dot(x, dz, product(dx, z))


@triton.jit
def three_halves_less(value, half, T: tl.constexpr):
    """3/2 I - half value."""
    return add_diagonal(value * -half, 0, 0, 1.5, T)


@triton.jit
def resident_chain_kernel(a, out, scales, c, out_stride, half, iterations, LAST: tl.constexpr, T: tl.constexpr):
    """The whole chain of matrix program_id(0). LAST is PLAIN for the factor P_N."""
    matrix = tl.program_id(0).to(tl.int64)
    dtype: tl.constexpr = a.dtype.element_ty
    start = tl.load(tile_pointers(a + matrix * (T * T), 0, 0, T, T, T))
    p = three_halves_less(start.to(tl.float32), half, T).to(dtype)
    y = product(start, p).to(dtype)
    for _ in range(iterations - 2):
        t = three_halves_less(product(p, y), half, T).to(dtype)
        y = product(y, t).to(dtype)
        p = product(p, t).to(dtype)
    t = three_halves_less(product(p, y), half, T).to(dtype)
    value = product(p if LAST == PLAIN else y, t)
    store_value(out + matrix * out_stride, 0, 0, value, tl.load(scales + matrix), c, LAST, T, 1, T)


@triton.jit
def resident_pair_chain_kernel(a, h, f, df, sums, half, f_scale, a_scale, iterations,
                               FACTOR: tl.constexpr, T: tl.constexpr):
    """The whole chain of matrix program_id(0) with its derivative in the direction h."""
    AREA: tl.constexpr = T * T
    matrix = tl.program_id(0).to(tl.int64)
    dtype: tl.constexpr = a.dtype.element_ty
    a += matrix * AREA
    h += matrix * AREA
    start = tl.load(tile_pointers(a, 0, 0, T, T, T))
    direction = tl.load(tile_pointers(h, 0, 0, T, T, T))
    p = three_halves_less(start.to(tl.float32), half, T).to(dtype)
    dp = (direction.to(tl.float32) * -half).to(dtype)
    dy = slope(start, direction, p, dp).to(dtype)
    y = product(start, p).to(dtype)
    for _ in range(iterations - 2):
        dt = (slope(p, dp, y, dy) * -half).to(dtype)
        t = three_halves_less(product(p, y), half, T).to(dtype)
        dy = slope(y, dy, t, dt).to(dtype)
        y = product(y, t).to(dtype)
        dp = slope(p, dp, t, dt).to(dtype)
        p = product(p, t).to(dtype)
    dt = (slope(p, dp, y, dy) * -half).to(dtype)
    t = three_halves_less(product(p, y), half, T).to(dtype)
    x = p if FACTOR else y
    dx = dp if FACTOR else dy
    sums += 2 * matrix
    tl.debug_barrier()  # so that a and h are loaded again: kept from the start, they would crowd the iterates out
    value = product(x, t) * f_scale
    tl.store(sums, inner_product(h, 0, 0, value, a_scale, T, 1, T))
    if FACTOR:
        store_symmetric(f + matrix * AREA, 0, 0, value, T, 1, T)
    dvalue = slope(x, dx, t, dt) * f_scale
    tl.store(sums + 1, inner_product(a, 0, 0, dvalue, a_scale, T, 1, T))
    store_symmetric(df + matrix * AREA, 0, 0, dvalue, T, 1, T)
