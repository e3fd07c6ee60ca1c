"""Device functions on tiles, shared by all kernels.

Products of stored operands have the form x z^T with the inner dimension contiguous in both: the layout that tensor
cores read best. It is always possible because the square matrices are symmetric. Matrices are padded to whole tiles, so
nothing is masked. An operand of two parts is a matrix followed by the matrix of its remainders, `part` elements later.
"""

import triton
import triton.language as tl

# fmt: off

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def tile_pointers(base, i, j, ld, TI: tl.constexpr, TJ: tl.constexpr):
    """Pointers to tile (i, j) of a row-major matrix with rows of length ld."""
    rows = i * TI + tl.arange(0, TI)
    columns = j * TJ + tl.arange(0, TJ)
    return base + rows[:, None].to(tl.int64) * ld + columns[None, :]


@triton.jit
def load_operand(pointers, part, PARTS: tl.constexpr):
    """The float32 value of a stored operand."""
    value = tl.load(pointers).to(tl.float32)
    if PARTS == 2:
        value += tl.load(pointers + part).to(tl.float32)
    return value


@triton.jit
def store_operand(pointers, value, part, where, PARTS: tl.constexpr):
    """Store a float32 value in 16 bits, and its remainder if there are two parts."""
    rounded = value.to(pointers.dtype.element_ty)
    tl.store(pointers, rounded, mask=where)
    if PARTS == 2:
        tl.store(pointers + part, (value - rounded.to(tl.float32)).to(pointers.dtype.element_ty), mask=where)


@triton.jit
def dot(x, z, acc):
    """acc + x z in float32."""
    if INTERPRETED:  # the interpreter gets bf16 products wrong
        x = x.to(tl.float32)
        z = z.to(tl.float32)
    return tl.dot(x, z, acc)


@triton.jit
def dot_nt(x, z, acc):
    """acc + x z^T in float32."""
    return dot(x, tl.trans(z), acc)


@triton.jit
def split_dot_nt(x, x_rest, z, z_rest, acc):
    """acc + x z^T for operands of two parts."""
    acc = dot_nt(x, z, acc)
    acc = dot_nt(x, z_rest, acc)
    return dot_nt(x_rest, z, acc)


@triton.jit
def load_parts(pointers, part, PARTS: tl.constexpr):
    """The value and the remainder of a stored operand. With one part the remainder is not used."""
    tile = tl.load(pointers)
    rest = tile
    if PARTS == 2:
        rest = tl.load(pointers + part)
    return tile, rest


@triton.jit
def add_product(x, x_rest, z, z_rest, acc, PARTS: tl.constexpr, APART: tl.constexpr):
    """acc + x z^T for tiles with their remainders.

    APART: a step of two parts is summed separately and then added to acc, because a tensor core truncates a long sum
    instead of rounding it. At order 256 this reduces the error of a root to a fifth in the same time. A matrix of a
    single tile would have to wait for the extra sum.
    """
    if PARTS == 1:
        acc = dot_nt(x, z, acc)
    elif APART:
        acc += split_dot_nt(x, x_rest, z, z_rest, tl.zeros_like(acc))
    else:
        acc = split_dot_nt(x, x_rest, z, z_rest, acc)
    return acc


@triton.jit
def add_slope(x, x_rest, dx, dx_rest, z, z_rest, dz, dz_rest, dacc, PARTS: tl.constexpr, APART: tl.constexpr):
    """dacc + dx z^T + x dz^T for tiles with their remainders; APART as in `add_product`."""
    if PARTS == 1:
        dacc = dot_nt(x, dz, dot_nt(dx, z, dacc))
    elif APART:
        step = split_dot_nt(dx, dx_rest, z, z_rest, tl.zeros_like(dacc))
        dacc += split_dot_nt(x, x_rest, dz, dz_rest, step)
    else:
        dacc = split_dot_nt(dx, dx_rest, z, z_rest, dacc)
        dacc = split_dot_nt(x, x_rest, dz, dz_rest, dacc)
    return dacc


@triton.jit
def step_nt(x, z, acc, x_part, z_part, PARTS: tl.constexpr, APART: tl.constexpr = True):
    """acc + x z^T for tiles given by pointers."""
    x_tile, x_rest = load_parts(x, x_part, PARTS)
    z_tile, z_rest = load_parts(z, z_part, PARTS)
    return add_product(x_tile, x_rest, z_tile, z_rest, acc, PARTS, APART)


@triton.jit
def step_pair_nt(x, dx, z, dz, acc, dacc, part, PARTS: tl.constexpr, APART: tl.constexpr = True):
    """acc + x z^T and its derivative dacc + dx z^T + x dz^T for tiles given by pointers."""
    x_tile, x_rest = load_parts(x, part, PARTS)
    z_tile, z_rest = load_parts(z, part, PARTS)
    dx_tile, dx_rest = load_parts(dx, part, PARTS)
    dz_tile, dz_rest = load_parts(dz, part, PARTS)
    acc = add_product(x_tile, x_rest, z_tile, z_rest, acc, PARTS, APART)
    dacc = add_slope(x_tile, x_rest, dx_tile, dx_rest, z_tile, z_rest, dz_tile, dz_rest, dacc, PARTS, APART)
    return acc, dacc


@triton.jit
def product_nt(x, z, i, j, ld_x, ld_z, x_part, z_part, inner,
               PARTS: tl.constexpr, TI: tl.constexpr, TJ: tl.constexpr, BK: tl.constexpr):
    """Tile (i, j) of x z^T."""
    x_pointers = tile_pointers(x, i, 0, ld_x, TI, BK)
    z_pointers = tile_pointers(z, j, 0, ld_z, TJ, BK)
    acc = tl.zeros((TI, TJ), tl.float32)
    for _ in range(0, inner, BK):
        acc = step_nt(x_pointers, z_pointers, acc, x_part, z_part, PARTS)
        x_pointers += BK
        z_pointers += BK
    return acc


@triton.jit
def store_symmetric(base, i, j, value, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    """Store a tile of a symmetric matrix of order SIZE, and its transpose."""
    store_operand(tile_pointers(base, i, j, SIZE, T, T), value, SIZE * SIZE, None, PARTS)
    if i != j:
        store_operand(tile_pointers(base, j, i, SIZE, T, T), tl.trans(value), SIZE * SIZE, None, PARTS)


@triton.jit
def store_matrix(base, i, j, value, c, T: tl.constexpr):
    """Store the entries of a tile that are inside a symmetric float32 c x c matrix, and their transpose."""
    rows = i * T + tl.arange(0, T)
    columns = j * T + tl.arange(0, T)
    inside = (rows[:, None] < c) & (columns[None, :] < c)
    tl.store(tile_pointers(base, i, j, c, T, T), value, mask=inside)
    if i != j:
        tl.store(tile_pointers(base, j, i, c, T, T), tl.trans(value), mask=tl.trans(inside))


@triton.jit
def add_diagonal(value, i, j, amount, T: tl.constexpr):
    """value + amount I on tile (i, j)."""
    rows = i * T + tl.arange(0, T)
    columns = j * T + tl.arange(0, T)
    return tl.where(rows[:, None] == columns[None, :], value + amount, value)


@triton.jit
def upper_tile(item, TILES: tl.constexpr):
    """Row i and column j of tile number `item` in the upper triangle of TILES x TILES tiles, row by row."""
    i = 0
    start = 0
    for row in tl.static_range(1, TILES):
        begin = row * TILES - row * (row - 1) // 2
        i = tl.where(item >= begin, row, i)
        start = tl.where(item >= begin, begin, start)
    return i, i + item - start


@triton.jit
def triangle_offsets(i, j, c, T: tl.constexpr):
    """Offsets of the entries of tile (i, j) in the row-by-row upper triangle of a c x c matrix, and their mask."""
    rows = (i * T + tl.arange(0, T)).to(tl.int64)[:, None]
    columns = (j * T + tl.arange(0, T)).to(tl.int64)[None, :]
    inside = (rows <= columns) & (columns < c)
    return rows * (2 * c - rows - 1) // 2 + columns, inside
