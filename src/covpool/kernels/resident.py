"""The chain of `iteration` for a matrix that is one tile: its program keeps every iterate on the chip.

Products have the form x z with symmetric iterates. Only operands of one part fit on the chip; those of two parts go
through memory, see `chain`.
"""

import triton
import triton.language as tl

from covpool.kernels.chain import OPERAND, store_result
from covpool.kernels.iteration import INNER, NEXT, QUARTIC, SINGLE, coefficients
from covpool.kernels.pair import inner_product
from covpool.kernels.tiles import add_diagonal, dot, tile_pointers

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
def diagonal(amount, T: tl.constexpr, dtype: tl.constexpr):
    """amount I."""
    return add_diagonal(tl.zeros((T, T), tl.float32), 0, 0, amount, T).to(dtype)


@triton.jit
def quartic(d, pair, a_scale, T: tl.constexpr):
    """Q of a pair of iterations."""
    alpha, beta, gamma = coefficients(INNER, pair, a_scale)
    m = add_diagonal(dot(d, d, d.to(tl.float32) * (beta / alpha)) * alpha, 0, 0, gamma, T).to(d.dtype)
    alpha, beta, gamma = coefficients(QUARTIC, pair, a_scale)
    return add_diagonal(dot(m, m, d.to(tl.float32) * (beta / alpha)) * alpha, 0, 0, gamma, T).to(d.dtype)


@triton.jit
def quartic_pair(d, dd, pair, a_scale, T: tl.constexpr):
    """Q and its derivative."""
    alpha, beta, gamma = coefficients(INNER, pair, a_scale)
    dm = (dot(d, dd, dot(dd, d, dd.to(tl.float32) * (beta / alpha))) * alpha).to(d.dtype)
    m = add_diagonal(dot(d, d, d.to(tl.float32) * (beta / alpha)) * alpha, 0, 0, gamma, T).to(d.dtype)
    alpha, beta, gamma = coefficients(QUARTIC, pair, a_scale)
    times = diagonal(beta / alpha, T, d.dtype)  # exact; D itself would have to stay in registers
    dq = (dot(m, dm, dot(dm, m, product(times, dd))) * alpha).to(d.dtype)
    q = add_diagonal(dot(m, m, product(times, d)) * alpha, 0, 0, gamma, T).to(d.dtype)
    return q, dq


@triton.jit
def next_coefficients(pair, pairs, iterations, a_scale):
    """Coefficients of the next D, or of its T before a last single iteration."""
    is_single = (pair == pairs - 1) & (iterations % 2 == 1)
    alpha, _, gamma = coefficients(tl.where(is_single, SINGLE, NEXT), pair, a_scale)
    return alpha, gamma


@triton.jit
def next_d(e, q, pair, pairs, iterations, a_scale, T: tl.constexpr):
    """The next D = E Q, or its T."""
    alpha, gamma = next_coefficients(pair, pairs, iterations, a_scale)
    return add_diagonal(product(e, q) * alpha, 0, 0, gamma, T).to(e.dtype)


@triton.jit
def next_slope(e, de, q, dq, pair, pairs, iterations, a_scale):
    """The derivative of `next_d`."""
    alpha, _ = next_coefficients(pair, pairs, iterations, a_scale)
    return (slope(e, de, q, dq) * alpha).to(e.dtype)


@triton.jit
def resident_chain_kernel(a, out, scales, c, out_stride, iterations, a_scale, KIND: tl.constexpr, T: tl.constexpr):
    """Run the whole chain on matrix program_id(0)."""
    matrix = tl.program_id(0).to(tl.int64)
    pairs = (iterations - 1) // 2  # pairs that are followed by another D
    d = tl.load(tile_pointers(a + matrix * (T * T), 0, 0, T, T, T))
    q = quartic(d, 0, a_scale, T)
    e = product(q, d).to(d.dtype)
    r = q if KIND == OPERAND else e
    d = next_d(e, q, 0, pairs, iterations, a_scale, T)
    for pair in range(1, pairs):
        q = quartic(d, pair, a_scale, T)
        r = product(q, r).to(d.dtype)
        d = next_d(product(q, d).to(d.dtype), q, pair, pairs, iterations, a_scale, T)
    if iterations % 2 == 0:
        d = quartic(d, pairs, a_scale, T)
    store_result(out + matrix * out_stride, scales + matrix, 0, 0, product(d, r), c, KIND, T, 1, T)


@triton.jit
def resident_pair_chain_kernel(a, h, f, df, sums, iterations, f_scale, a_scale, FACTOR: tl.constexpr, T: tl.constexpr):
    """Run the whole chain on matrix program_id(0), with its derivative in the direction h.

    R and its derivative are kept in f and df between uses: on the chip they would leave no room for other iterates.
    """
    AREA: tl.constexpr = T * T
    matrix = tl.program_id(0).to(tl.int64)
    a += matrix * AREA
    h += matrix * AREA
    f += matrix * AREA
    df += matrix * AREA
    pairs = (iterations - 1) // 2  # pairs that are followed by another D
    d = tl.load(tile_pointers(a, 0, 0, T, T, T))
    dd = tl.load(tile_pointers(h, 0, 0, T, T, T))
    q, dq = quartic_pair(d, dd, 0, a_scale, T)
    de = slope(q, dq, d, dd).to(d.dtype)
    e = product(q, d).to(d.dtype)
    tl.store(tile_pointers(f, 0, 0, T, T, T), q if FACTOR else e)
    tl.store(tile_pointers(df, 0, 0, T, T, T), dq if FACTOR else de)
    dd = next_slope(e, de, q, dq, 0, pairs, iterations, a_scale)
    d = next_d(e, q, 0, pairs, iterations, a_scale, T)
    for pair in range(1, pairs):
        q, dq = quartic_pair(d, dd, pair, a_scale, T)
        tl.debug_barrier()
        r = tl.load(tile_pointers(f, 0, 0, T, T, T))
        dr = slope(q, dq, r, tl.load(tile_pointers(df, 0, 0, T, T, T))).to(d.dtype)
        r = product(q, r).to(d.dtype)
        tl.debug_barrier()
        tl.store(tile_pointers(f, 0, 0, T, T, T), r)
        tl.store(tile_pointers(df, 0, 0, T, T, T), dr)
        de = slope(q, dq, d, dd).to(d.dtype)
        e = product(q, d).to(d.dtype)
        dd = next_slope(e, de, q, dq, pair, pairs, iterations, a_scale)
        d = next_d(e, q, pair, pairs, iterations, a_scale, T)
    if iterations % 2 == 0:
        d, dd = quartic_pair(d, dd, pairs, a_scale, T)
    tl.debug_barrier()
    r = tl.load(tile_pointers(f, 0, 0, T, T, T))
    value = product(d, r) * f_scale
    dvalue = slope(d, dd, r, tl.load(tile_pointers(df, 0, 0, T, T, T))) * f_scale
    tl.debug_barrier()
    sums += 2 * matrix
    tl.store(sums, inner_product(h, 0, 0, value, 1 / a_scale, T, 1, T))
    tl.store(sums + 1, inner_product(a, 0, 0, dvalue, 1 / a_scale, T, 1, T))
    tl.store(tile_pointers(df, 0, 0, T, T, T), dvalue.to(d.dtype))
    if FACTOR:
        tl.store(tile_pointers(f, 0, 0, T, T, T), value.to(d.dtype))
