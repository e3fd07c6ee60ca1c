"""covpool.kernels.shape: tiles cover every matrix, and programs that wait for each other run at the same time."""

import pytest

from covpool.kernels import shape
from covpool.kernels.features import POSITION_BLOCK
from covpool.kernels.gpu import LARGE_SHARED_MEMORY, MIN_SHARED_MEMORY


@pytest.mark.parametrize("order", [1, 49, 64, 65, 196, 256, 512, 1024])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("room", [MIN_SHARED_MEMORY, LARGE_SHARED_MEMORY])
def test_tiles_are_powers_of_two_made_of_whole_inner_steps(order: int, parts: int, room: int) -> None:
    t = shape.tiling(order, parts, room)
    for size in (t.tile, t.inner, t.warps, t.channel_tile, t.channel_warps):
        assert size & (size - 1) == 0
    assert t.tile % t.inner == 0
    assert t.inner >= 16  # the shortest inner dimension of a tensor-core product in 16 bits
    assert t.stages >= 1


@pytest.mark.parametrize(("size", "multiple", "expected"), [(1, 64, 64), (64, 64, 64), (65, 64, 128), (512, 128, 512)])
def test_padded(size: int, multiple: int, expected: int) -> None:
    assert shape.padded(size, multiple) == expected


def test_one_tile_of_one_part_stays_on_the_chip() -> None:
    largest = shape.tiling(100, 1).tile
    assert [shape.stays_on_chip(order, 1) for order in (1, largest, largest + 1)] == [True, True, False]
    assert not shape.stays_on_chip(1, 2)


COARSE, FINE = shape.Tiling(128, 64, 8, 3, 128, 8), shape.Tiling(64, 64, 4, 3, 128, 8)


def test_few_matrices_are_cut_into_more_tiles() -> None:
    found = [shape.finer(COARSE, b, 256) for b in (1, 42, 43, 1000)]
    assert found == [FINE, FINE, COARSE, COARSE]
    assert shape.finer(FINE, 1, 64) == FINE


def test_smaller_tiles_where_they_save_padding() -> None:
    found = [shape.snug(COARSE, order).tile for order in (65, 150, 256, 257, 320, 321, 385, 1024)]
    assert found == [128, 128, 128, 64, 64, 128, 128, 128]
    assert shape.snug(FINE, 257) == FINE


@pytest.mark.parametrize(
    ("order", "batch", "copies", "tile", "members", "teams"),
    [
        (256, 128, 1, 128, 1, 128),  # many light matrices have a program each
        (256, 1000, 1, 128, 1, 132),  # more matrices than programs: each program takes several
        (256, 128, 2, 128, 3, 44),  # a team shares each heavier matrix
        (256, 32, 1, 128, 3, 32),  # a team shares each matrix of a small batch
        (256, 26, 1, 64, 10, 26),  # an even smaller batch has smaller tiles
        (256, 0, 1, 64, 10, 0),
        (1024, 2, 2, 128, 36, 2),
        (1024, 1, 2, 64, 136, 1),
        (64, 1000, 2, 64, 1, 264),
        (128, 64, 4, 128, 1, 64),  # one program per matrix, with larger tiles
    ],
)
def test_teams(order: int, batch: int, copies: int, tile: int, members: int, teams: int) -> None:
    found = shape.team(COARSE if order > 64 else FINE, batch, order, copies, processors=132)
    assert (found.tiling.tile, found.members, found.teams) == (tile, members, teams)


@pytest.mark.parametrize("order", [64, 256, 1024])
@pytest.mark.parametrize("batch", [1, 3, 100])
@pytest.mark.parametrize("room", [MIN_SHARED_MEMORY, LARGE_SHARED_MEMORY])
@pytest.mark.parametrize("processors", [1, 7, 84, 132])
def test_no_more_programs_wait_than_run(order: int, batch: int, room: int, processors: int) -> None:
    t = COARSE if order > 64 and room == LARGE_SHARED_MEMORY else FINE
    found = shape.team(t, batch, order, 2, processors, room)
    assert 1 <= found.teams * found.members <= shape.at_once(found.tiling, processors, room)
    assert found.members <= shape.triangle_tiles(order, found.tiling.tile)


def test_interpreted_programs_are_alone() -> None:
    found = shape.team(COARSE, 5, 256, 2, processors=0)
    assert (found.members, found.teams) == (1, 1)


def test_the_most_positions_fit_into_a_launch() -> None:
    assert shape.MOST_ROWS == shape.LARGEST_BATCH * POSITION_BLOCK
