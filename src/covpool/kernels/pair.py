"""The chain of `chain` with its derivative in a direction, computed in the same steps by the same teams."""

import triton
import triton.language as tl

from covpool.kernels.chain import meet, started, store_iterate
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
    """acc + tile (i, j) of x z, and dacc + tile (i, j) of dx z + x dz."""
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
def pair_step(a, h, workspace, index, steps, a_scale, member, MEMBERS: tl.constexpr,
              FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Compute a member's tiles of product number `index` and of its derivative, in the second half of the slots."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    step, pair = step_of(index, steps)
    x, z, d, out = operands(a, workspace, step, pair, AREA, FACTOR)
    dx, dz, dd, dout = operands(h, workspace + 4 * AREA, step, pair, AREA, FACTOR)
    alpha, beta, gamma = coefficients(step, pair, a_scale)
    for item in range(member, (SIZE // T) * (SIZE // T + 1) // 2, MEMBERS):
        i, j = upper_tile(item, SIZE // T)
        acc = started(d, i, j, beta / alpha, SIZE, PARTS, T)
        dacc = started(dd, i, j, beta / alpha, SIZE, PARTS, T)
        acc, dacc = product_pair(x, dx, z, dz, i, j, acc, dacc, SIZE, PARTS, T, BK)
        store_iterate(out, i, j, acc, alpha, gamma, SIZE, PARTS, T)
        store_symmetric(dout, i, j, dacc * alpha, SIZE, PARTS, T)  # the identity has no derivative


@triton.jit
def inner_product(base, i, j, value, scale, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """The part of <value, scale base> in tile (i, j) and in its transpose, for a stored symmetric matrix `base`."""
    tile = load_operand(tile_pointers(base, i, j, SIZE, T, T), SIZE * SIZE, PARTS)
    # Triton 3.6 and 3.7 cannot compile a sum over one axis after the other for Blackwell.
    return tl.sum(value * tile) * scale * tl.where(i == j, 1.0, 2.0)


@triton.jit
def last_pair_step(a, h, workspace, f, df, sums, iterations, f_scale, a_scale, member,
                   MEMBERS: tl.constexpr, FACTOR: tl.constexpr,
                   SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Compute a member's tiles of dF (and of F for the factor), with their parts of <H, F> and <dF, A>."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    x, z = last_operands(workspace, iterations, AREA, FACTOR)
    dx, dz = last_operands(workspace + 4 * AREA, iterations, AREA, FACTOR)
    for item in range(member, (SIZE // T) * (SIZE // T + 1) // 2, MEMBERS):
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


@triton.jit(do_not_specialize=["batch"])
def pair_chain_kernel(a, h, workspace, counters, f, df, sums, batch, iterations, steps, f_scale, a_scale,
                      FACTOR: tl.constexpr, MEMBERS: tl.constexpr,
                      SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Run the whole chain and its derivative in the direction h on all matrices; `counters` has one zero per matrix."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    ITEMS: tl.constexpr = (SIZE // T) * (SIZE // T + 1) // 2
    team = tl.program_id(0) // MEMBERS
    member = tl.program_id(0) % MEMBERS
    teams = tl.num_programs(0) // MEMBERS
    workspace += team.to(tl.int64) * (8 * AREA)
    for matrix in range(team, batch, teams):
        counter = counters + matrix
        at = tl.cast(matrix, tl.int64) * AREA
        for index in range(steps):
            pair_step(a + at, h + at, workspace, index, steps, a_scale, member, MEMBERS, FACTOR, SIZE, PARTS, T, BK)
            meet(counter, (index + 1) * MEMBERS, MEMBERS)
        last_pair_step(a + at, h + at, workspace, f + at, df + at, sums + matrix * (2 * ITEMS), iterations,
                       f_scale, a_scale, member, MEMBERS, FACTOR, SIZE, PARTS, T, BK)
        if matrix + teams < batch:  # the next matrix reuses the workspace
            meet(counter, (steps + 1) * MEMBERS, MEMBERS)
