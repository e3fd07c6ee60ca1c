"""Tile sizes, padding, warps and pipeline stages, as pure functions of shape, precision and device."""

from dataclasses import dataclass, replace

from covpool.kernels.gpu import LARGE_SHARED_MEMORY

LARGEST_BATCH = 65535  # limit of the second axis of a launch
MOST_ROWS = 64 * LARGEST_BATCH  # positions of features: that axis takes blocks of 64 of them, too
FEW_PROGRAMS = 128  # with fewer, multiprocessors of a large GPU are idle
MANY = 64  # matrices; with one program for each, half of a large GPU is busy
SNUG = 0.65  # part of the arithmetic that smaller tiles must come down to
LIGHT = 256 * 256  # stored numbers of a matrix; up to here a team loses more by synchronizing than it gains


@dataclass(frozen=True)
class Tiling:
    """How a matrix of a given order is divided into tiles.

    Attributes:
        tile: Order of a tile.
        inner: Length of the inner dimension that is multiplied at a time.
        warps: Warps per program.
        stages: Depth of the load pipeline.
        channel_tile: Tile size along the channels in products with features.
        channel_warps: Warps per program in those products.
    """

    tile: int
    inner: int
    warps: int
    stages: int
    channel_tile: int
    channel_warps: int


def tiling(order: int, parts: int, room: int = LARGE_SHARED_MEMORY) -> Tiling:
    """Tiles of 64 up to order 64 or with little shared memory, else of 128; half the inner step for two parts.

    Args:
        order: Order of the matrices.
        parts: Parts of their operands.
        room: Shared memory that a program may use.
    """
    inner = 64 // parts
    if room < LARGE_SHARED_MEMORY:
        return Tiling(64, inner, 4, 2, 64, 4)
    tile = tile_of(order)
    return Tiling(tile, inner, tile // 16, 3, 128, 8)


def tile_of(order: int) -> int:
    """Order of the tiles of a matrix, with enough shared memory."""
    return 64 if order <= 64 else 128


def triangle_tiles(size: int, tile: int) -> int:
    """The number of tiles in the upper triangle of a matrix.

    >>> triangle_tiles(256, 128)
    3
    """
    tiles = size // tile
    return tiles * (tiles + 1) // 2  # math.comb would fix a symbolic size


def finer(t: Tiling, batch: int, size: int) -> Tiling:
    """Tiles of 64 where tiles of 128 would give too few programs. The layout in memory is the same."""
    if t.tile <= 64 or batch * triangle_tiles(size, t.tile) >= FEW_PROGRAMS:
        return t
    return replace(t, tile=64, warps=4)


def snug(t: Tiling, order: int) -> Tiling:
    """The tiling, with tiles of 64 if they leave a matrix of several tiles with far less padding, as at order 257."""
    if order <= 2 * t.tile or padded(order, 64) ** 3 > SNUG * padded(order, t.tile) ** 3:
        return t
    return replace(t, tile=64, warps=4)


def padded(size: int, multiple: int) -> int:
    """`size` rounded up to a multiple.

    >>> padded(196, 64)
    256
    """
    return -(-size // multiple) * multiple


def stays_on_chip(order: int, parts: int, room: int = LARGE_SHARED_MEMORY) -> bool:
    """Whether a program can keep all iterates of a matrix on the chip: one tile, of one part."""
    return parts == 1 and order <= tiling(order, parts, room).tile


@dataclass(frozen=True)
class Team:
    """How the programs of a launch share the matrices of the chain.

    Attributes:
        tiling: Tiling of each matrix.
        members: Programs that work on the same matrix.
        teams: Number of matrices in work at the same time.
    """

    tiling: Tiling
    members: int
    teams: int


def team(t: Tiling, batch: int, size: int, copies: int, processors: int, room: int = LARGE_SHARED_MEMORY) -> Team:
    """One program per matrix for many light matrices; otherwise the concurrent programs share as few as possible.

    Sharing keeps the iterates in the cache. Tiles are 64 instead of 128 if all of them can be computed at once.

    Args:
        t: Tiling for many matrices.
        batch: Number of matrices.
        size: Padded order of a matrix.
        copies: Stored numbers per entry: the parts, or twice that with the derivative.
        processors: Number of multiprocessors; 0 where programs run one after another.
        room: Shared memory that a program may use.
    """
    alone = batch >= MANY and size * size * copies <= LIGHT
    fine = replace(t, tile=min(t.tile, 64), warps=4)
    if not alone and batch * triangle_tiles(size, fine.tile) <= at_once(fine, processors, room):
        t = fine
    programs = max(at_once(t, processors, room), 1)
    members = 1 if alone else min(triangle_tiles(size, t.tile), programs)
    return Team(t, members, min(batch, programs // members))


def at_once(t: Tiling, processors: int, room: int = LARGE_SHARED_MEMORY) -> int:
    """The number of concurrent programs of the chain: with small tiles and enough memory, two on each multiprocessor.

    >>> at_once(tiling(256, 1), 132), at_once(tiling(64, 2), 132)
    (132, 264)
    """
    return processors * (2 if t.tile <= 64 and room >= LARGE_SHARED_MEMORY else 1)
