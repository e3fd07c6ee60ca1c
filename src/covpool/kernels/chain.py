"""The chain of `iteration` on stored symmetric matrices, through memory.

A team of programs shares a matrix: each program computes its tiles of a product, and all wait for each other before the
next product. The teams of a launch go through all matrices, each team in its own workspace.
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

OPERAND = tl.constexpr(0)  # stored as an operand of further products
TRIANGLE = tl.constexpr(1)  # stored as the upper triangle, a float32 vector
MATRIX = tl.constexpr(2)  # stored as a float32 matrix


@triton.jit
def started(d, i, j, amount, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """The initial accumulator of tile (i, j) of a product: amount D, for a stored D."""
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
def meet(counter, target, MEMBERS: tl.constexpr):
    """Wait until every member of a team has arrived and the values they stored can be read.

    The counter starts at zero and grows by one with each arrival. `target` is its value when all have arrived.
    """
    tl.debug_barrier()
    if MEMBERS > 1:
        tl.atomic_add(counter, 1, sem="release", scope="gpu")
        while tl.atomic_add(counter, 0, sem="acquire", scope="gpu") < target:
            pass
        tl.debug_barrier()


@triton.jit
def value_step(a, workspace, index, steps, a_scale, member, MEMBERS: tl.constexpr,
               FACTOR: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Compute a member's tiles of product number `index`."""
    step, pair = step_of(index, steps)
    x, z, d, out = operands(a, workspace, step, pair, SIZE * SIZE * PARTS, FACTOR)
    alpha, beta, gamma = coefficients(step, pair, a_scale)
    for item in range(member, (SIZE // T) * (SIZE // T + 1) // 2, MEMBERS):
        i, j = upper_tile(item, SIZE // T)
        acc = started(d, i, j, beta / alpha, SIZE, PARTS, T)
        acc = product_tile(x, z, i, j, acc, SIZE, PARTS, T, BK)
        store_iterate(out, i, j, acc, alpha, gamma, SIZE, PARTS, T)


@triton.jit
def store_result(out, scale, i, j, value, c,
                 KIND: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """Store tile (i, j) of the result as KIND says. A triangle or a matrix is multiplied by the value at `scale`."""
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
def last_value_step(workspace, out, scale, c, iterations, member, MEMBERS: tl.constexpr,
                    KIND: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Compute a member's tiles of the last product: Y_N times its scale, or P_N as an operand."""
    x, z = last_operands(workspace, iterations, SIZE * SIZE * PARTS, KIND == OPERAND)
    for item in range(member, (SIZE // T) * (SIZE // T + 1) // 2, MEMBERS):
        i, j = upper_tile(item, SIZE // T)
        acc = product_tile(x, z, i, j, tl.zeros((T, T), tl.float32), SIZE, PARTS, T, BK)
        store_result(out, scale, i, j, acc, c, KIND, SIZE, PARTS, T)


@triton.jit(do_not_specialize=["batch"])
def chain_kernel(a, workspace, counters, out, scales, batch, c, out_stride, iterations, steps, a_scale,
                 KIND: tl.constexpr, MEMBERS: tl.constexpr,
                 SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Run the whole chain on all matrices. `counters` holds one zero per matrix."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    team = tl.program_id(0) // MEMBERS
    member = tl.program_id(0) % MEMBERS
    teams = tl.num_programs(0) // MEMBERS
    workspace += team.to(tl.int64) * (4 * AREA)
    for matrix in range(team, batch, teams):
        at = tl.cast(matrix, tl.int64)
        for index in range(steps):
            value_step(a + at * AREA, workspace, index, steps, a_scale, member, MEMBERS,
                       KIND == OPERAND, SIZE, PARTS, T, BK)
            meet(counters + at, (index + 1) * MEMBERS, MEMBERS)
        last_value_step(workspace, out + at * out_stride, scales + at, c, iterations, member, MEMBERS,
                        KIND, SIZE, PARTS, T, BK)
        if matrix + teams < batch:  # the next matrix reuses the workspace
            meet(counters + at, (steps + 1) * MEMBERS, MEMBERS)
