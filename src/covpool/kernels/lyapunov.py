"""Newton-Schulz steps for z x + x z = g with symmetric z and g, on the GPU.

With a and q the two matrices divided by their scales, a step is

    V = q a - a q / 2,   q <- (3 q - V a - a V^T) / 2,   T = (3 I - a^2) / 2,   a <- a T,

which is the published step q <- (q (3 I - a^2) - a (a q - q a)) / 2 with four products instead of six. As in `chain`,
a team of programs shares a matrix and meets after the products that it reads next.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from covpool.kernels import matrices
from covpool.kernels.adjoint import matrix_constants, matrix_direction
from covpool.kernels.chain import meet, product_tile, started
from covpool.kernels.features import TINY
from covpool.kernels.launch import Chain
from covpool.kernels.matrices import symmetric_tile
from covpool.kernels.pair import product_pair
from covpool.kernels.plan import Planned, launch_kernel
from covpool.kernels.precision import LARGEST, mode
from covpool.kernels.tiles import (
    add_diagonal,
    load_operand,
    store_matrix,
    store_operand,
    store_symmetric,
    tile_pointers,
    upper_tile,
)

MOST_STEPS = 16  # q may grow by 1.5 with each step, and stays in the range of fp16
SLOTS = tl.constexpr(5)  # of a team's workspace: a, the next a, q, V, T

# fmt: off


@triton.jit
def scaled_root_kernel(z, squares, norms, a, counters, scales, c, stride_b, stride_i, stride_j, items, tiny, a_scale,
                       factor, ITEMS: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """Store a_scale z / sqrt(t), t the norm from the sums `squares`, and the scale of the result.

    The scale is factor norm / sqrt(t). Where t is below `tiny`, both are zero. The chain's counters are cleared.
    """
    matrix = tl.program_id(1).to(tl.int64)
    i, j = upper_tile(tl.program_id(0), SIZE // T)
    index = tl.arange(0, ITEMS)
    t = tl.sqrt(tl.sum(tl.load(squares + matrix * items + index, mask=index < items, other=0.0), 0)).to(tl.float32)
    zero = t < tiny
    r = tl.where(zero, 0.0, 1.0 / tl.sqrt(tl.where(zero, 1.0, t)))
    if tl.program_id(0) == 0:
        tl.store(counters + matrix, 0)
        tl.store(scales + matrix, factor * tl.load(norms + matrix) * r)
    value = symmetric_tile(z + matrix * stride_b, i, j, c, stride_i, stride_j, T) * (r * a_scale)
    store_symmetric(a + matrix * (SIZE * SIZE * PARTS), i, j, value, SIZE, PARTS, T)


@triton.jit
def commute(a, q, v, a_scale, member, MEMBERS: tl.constexpr,
            SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Store a member's tiles of V = q a - a q / 2."""
    for item in range(member, (SIZE // T) * (SIZE // T + 1) // 2, MEMBERS):
        i, j = upper_tile(item, SIZE // T)
        zero = tl.zeros((T, T), tl.float32)
        upper = product_tile(a, q, i, j, zero, SIZE, PARTS, T, BK) / a_scale
        lower = product_tile(a, q, j, i, zero, SIZE, PARTS, T, BK) / a_scale
        store_operand(tile_pointers(v, i, j, SIZE, T, T), tl.trans(lower) - 0.5 * upper, SIZE * SIZE, None, PARTS)
        if i != j:
            store_operand(tile_pointers(v, j, i, SIZE, T, T), tl.trans(upper) - 0.5 * lower, SIZE * SIZE, None, PARTS)


@triton.jit
def advance(a, q, v, t, following, a_scale, member, MEMBERS: tl.constexpr,
            SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Store a member's tiles of the next q and of T."""
    for item in range(member, (SIZE // T) * (SIZE // T + 1) // 2, MEMBERS):
        i, j = upper_tile(item, SIZE // T)
        square = tl.zeros((T, T), tl.float32)
        change = started(q, i, j, -3 * a_scale, SIZE, PARTS, T)
        square, change = product_pair(a, v, a, v, i, j, square, change, SIZE, PARTS, T, BK)
        store_symmetric(following, i, j, change * (-0.5 / a_scale), SIZE, PARTS, T)
        store_symmetric(t, i, j, add_diagonal(square * (-0.5 / (a_scale * a_scale)), i, j, 1.5, T), SIZE, PARTS, T)


@triton.jit
def multiply(a, t, following, member, MEMBERS: tl.constexpr,
             SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Store a member's tiles of the next a."""
    for item in range(member, (SIZE // T) * (SIZE // T + 1) // 2, MEMBERS):
        i, j = upper_tile(item, SIZE // T)
        acc = product_tile(a, t, i, j, tl.zeros((T, T), tl.float32), SIZE, PARTS, T, BK)
        store_symmetric(following, i, j, acc, SIZE, PARTS, T)


@triton.jit(do_not_specialize=["batch"])
def lyapunov_chain_kernel(a, h, workspace, counters, out, batch, steps, a_scale, MEMBERS: tl.constexpr,
                          SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr):
    """Take all steps from the matrices a and the directions h; `counters` has one zero per matrix."""
    AREA: tl.constexpr = SIZE * SIZE * PARTS
    team = tl.program_id(0) // MEMBERS
    member = tl.program_id(0) % MEMBERS
    teams = tl.num_programs(0) // MEMBERS
    workspace += team.to(tl.int64) * (SLOTS * AREA)
    for matrix in range(team, batch, teams):
        counter = counters + matrix
        at = tl.cast(matrix, tl.int64) * AREA
        q, v, t = workspace + 2 * AREA, workspace + 3 * AREA, workspace + 4 * AREA
        for step in range(steps):
            x = tl.where(step == 0, a + at, workspace + step % 2 * AREA)
            y = tl.where(step == 0, h + at, q)
            commute(x, y, v, a_scale, member, MEMBERS, SIZE, PARTS, T, BK)
            meet(counter, (3 * step + 1) * MEMBERS, MEMBERS)
            following = tl.where(step + 1 == steps, out + at, q)
            advance(x, y, v, t, following, a_scale, member, MEMBERS, SIZE, PARTS, T, BK)
            if step + 1 < steps:
                meet(counter, (3 * step + 2) * MEMBERS, MEMBERS)
                multiply(x, t, workspace + (step + 1) % 2 * AREA, member, MEMBERS, SIZE, PARTS, T, BK)
                meet(counter, (3 * step + 3) * MEMBERS, MEMBERS)
        if matrix + teams < batch:  # the next matrix reuses the workspace
            meet(counter, (3 * steps - 1) * MEMBERS, MEMBERS)


@triton.jit
def scaled_matrix_kernel(q, scales, out, c, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """Store a stored symmetric matrix times its scale as a float32 c x c matrix."""
    matrix = tl.program_id(1).to(tl.int64)
    i, j = upper_tile(tl.program_id(0), SIZE // T)
    tile = load_operand(tile_pointers(q + matrix * (SIZE * SIZE * PARTS), i, j, SIZE, T, T), SIZE * SIZE, PARTS)
    if i == j:  # rounding depends on the order of the factors
        tile = (tile + tl.trans(tile)) * 0.5
    store_matrix(out + matrix * c * c, i, j, tile * tl.load(scales + matrix), c, T)


# fmt: on
def direction_scale(steps: int) -> float:
    """Norm of the stored direction, a power of two; V is at most 1.5 times as long as q.

    >>> direction_scale(8), direction_scale(16)
    (1024.0, 32.0)
    """
    return 2.0 ** min(10, math.floor(math.log2(LARGEST / 1.5 ** (steps + 1))))


def _solve(s: Tensor, z: Tensor, g: Tensor, steps: int, precision: str) -> tuple[Tensor, ...]:
    b, c, _ = s.shape
    run = Chain(b, c, 3, mode(precision, 3), s, snug=True)
    scale = direction_scale(steps)
    squares = s.new_empty(b, run.items, dtype=torch.float64)
    launch_kernel(
        matrices.squares_of_tiles_kernel, (run.items, b), s, squares, c, *s.stride(), run.items,
        SIZE=run.size, T=run.tiling.tile, num_warps=run.tiling.warps,
    )  # fmt: skip
    h, norms = matrix_direction(run, g, scale)
    a, scales, out = run.empty(b), s.new_empty(b), s.new_empty(b, c, c)
    launch_kernel(
        scaled_root_kernel, (run.items, b), z, squares, norms, a, run.counters, scales, c, *z.stride(), run.items, TINY,
        run.mode.y_scale, 0.5 / scale, ITEMS=triton.next_power_of_2(run.items), **matrix_constants(run),
    )  # fmt: skip
    by, q = run.team(copies=2 * run.mode.parts), run.empty(b)
    launch_kernel(
        lyapunov_chain_kernel, (by.teams * by.members,),
        a, h, run.empty(by.teams, SLOTS.value), run.counters, q, b, steps, run.mode.y_scale, **run.shared(by),
    )  # fmt: skip
    launch_kernel(scaled_matrix_kernel, (run.items, b), q, scales, out, c, **matrix_constants(run))
    return (out,)


_planned = Planned(_solve)


def solve_eager(s: Tensor, z: Tensor, g: Tensor, steps: int, precision: str) -> Tensor:
    """The symmetric x that a number of steps gives for z x + x z = sym(g), with z divided by sqrt(|s|_F) first.

    Args:
        s: Symmetric matrices (b, c, c) in float32. Zero gives zero.
        z: Their roots, with eigenvalues from zero to sqrt(|s|_F).
        g: Right-hand sides.
        steps: Number of steps, up to `MOST_STEPS`.
        precision: A `Precision`.
    """
    return _planned((s, z, g), steps, precision)[0]
