"""Tile sizes, padding and the number of warps and pipeline stages: pure functions of shape, precision and device."""

from dataclasses import dataclass, replace

from covpool.kernels.gpu import LARGE_SHARED_MEMORY

LARGEST_BATCH = 65535  # of a launch's second axis
FEW_PROGRAMS = 128  # fewer leave multiprocessors of a large GPU without work
MANY = 64  # matrices: each can have a program, and half of a large GPU is busy
LIGHT = 256 * 256  # numbers stored of a matrix, up to which to meet costs a team more than it saves


@dataclass(frozen=True)
class Tiling:
    """How a matrix of a given order is cut.

    Attributes:
        tile: order of a tile.
        inner: how much of the inner dimension is multiplied at a time.
        warps: warps per program.
        stages: depth of the load pipeline.
        channel_tile: of products with features, along the channels.
        channel_warps: of these products.
    """

    tile: int
    inner: int
    warps: int
    stages: int
    channel_tile: int
    channel_warps: int


def tiling(order: int, parts: int, room: int = LARGE_SHARED_MEMORY) -> Tiling:
    """Tiles of 64 up to order 64 or where there is little room, of 128 above; half the step for operands of two parts.

    Args:
        order: of the matrices.
        parts: of their operands.
        room: shared memory that a program may have.
    """
    inner = 64 // parts
    if room < LARGE_SHARED_MEMORY:
        return Tiling(64, inner, 4, 2, 64, 4)
    if order <= 64:
        return Tiling(64, inner, 4, 3, 128, 8)
    return Tiling(128, inner, 8, 3, 128, 8)


def triangle_tiles(size: int, tile: int) -> int:
    """How many tiles the upper triangle of a matrix has.

    >>> triangle_tiles(256, 128)
    3
    """
    tiles = size // tile
    return tiles * (tiles + 1) // 2  # math.comb would bind a symbolic size


def finer(t: Tiling, batch: int, size: int) -> Tiling:
    """Tiles of 64 instead of 128 where these would make too few programs. The layout in memory is the same."""
    if t.tile <= 64 or batch * triangle_tiles(size, t.tile) >= FEW_PROGRAMS:
        return t
    return replace(t, tile=64, warps=4)


def padded(size: int, multiple: int) -> int:
    """The smallest multiple that holds size.

    >>> padded(196, 64)
    256
    """
    return -(-size // multiple) * multiple


def stays_on_chip(order: int, parts: int, room: int = LARGE_SHARED_MEMORY) -> bool:
    """Whether a program can keep all iterates of a matrix: one tile, of one part."""
    return parts == 1 and order <= tiling(order, parts, room).tile


@dataclass(frozen=True)
class Team:
    """How the programs of a launch share the matrices of the chain.

    Attributes:
        tiling: of each matrix.
        members: programs that work on the same matrix.
        teams: how many matrices are worked on at the same time.
    """

    tiling: Tiling
    members: int
    teams: int


def team(t: Tiling, batch: int, size: int, copies: int, processors: int, room: int = LARGE_SHARED_MEMORY) -> Team:
    """One program for each of many light matrices; else all that run at once share as few matrices as they can.

    So the iterates in work stay in the cache. Tiles of 64 instead of 128 if they can all be worked on at once.

    Args:
        t: the tiling for many matrices.
        batch: how many there are.
        size: their padded order.
        copies: numbers stored per entry: parts, twice with the derivative.
        processors: multiprocessors; 0 where one program runs after the other.
        room: shared memory that a program may have.
    """
    alone = batch >= MANY and size * size * copies <= LIGHT
    fine = replace(t, tile=min(t.tile, 64), warps=4)
    if not alone and batch * triangle_tiles(size, fine.tile) <= at_once(fine, processors, room):
        t = fine
    programs = max(at_once(t, processors, room), 1)
    members = 1 if alone else min(triangle_tiles(size, t.tile), programs)
    return Team(t, members, min(batch, programs // members))


def at_once(t: Tiling, processors: int, room: int = LARGE_SHARED_MEMORY) -> int:
    """How many programs of the chain run at the same time: on a multiprocessor two of small tiles, if there is room.

    >>> at_once(tiling(256, 1), 132), at_once(tiling(64, 2), 132)
    (132, 264)
    """
    return processors * (2 if t.tile <= 64 and room >= LARGE_SHARED_MEMORY else 1)
