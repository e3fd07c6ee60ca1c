"""covpool.kernels.shape: the tiling is whole, and the launch depends on the batch alone."""

import pytest

from covpool.kernels import shape
from covpool.kernels.gpu import ENOUGH, MUCH


@pytest.mark.parametrize("order", [1, 49, 64, 65, 196, 256, 512, 1024])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("room", [ENOUGH, MUCH])
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


def test_large_batches_give_each_matrix_a_program() -> None:
    assert shape.one_program_per_matrix(128)
    assert not shape.one_program_per_matrix(1)


@pytest.mark.parametrize(("few", "last"), [(shape.FEW_PAIR_PROGRAMS, 29), (shape.FEW_PROGRAMS, 42)])
def test_few_matrices_are_cut_into_more_tiles(few: int, last: int) -> None:
    coarse = shape.Tiling(128, 64, 8, 3, 128, 8)
    fine = shape.Tiling(64, 64, 4, 3, 128, 8)
    assert [shape.finer(coarse, b, 256, few) for b in (1, last, last + 1, 1000)] == [fine, fine, coarse, coarse]
    assert shape.finer(fine, 1, 64, few) == fine
