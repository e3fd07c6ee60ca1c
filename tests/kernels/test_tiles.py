"""covpool.kernels.tiles: each device function through a kernel of its own."""

import pytest
import torch
import triton
import triton.language as tl

from covpool.kernels.tiles import (
    add_diagonal,
    load_operand,
    product_nt,
    step_pair_nt,
    store_operand,
    store_symmetric,
    tile_pointers,
    triangle_offsets,
    upper_tile,
)
from kernels.oracles import DEVICE, randn, split
from ops.oracles import relative_error

# fmt: off


STORAGES = [(torch.float16, 2, 1e-6), (torch.float16, 1, 1e-3), (torch.bfloat16, 1, 8e-3)]


@triton.jit
def upper_tile_kernel(out, TILES: tl.constexpr):
    item = tl.program_id(0)
    i, j = upper_tile(item, TILES)
    tl.store(out + 2 * item, i)
    tl.store(out + 2 * item + 1, j)


@triton.jit
def triangle_kernel(out, c, TILES: tl.constexpr, T: tl.constexpr):
    i, j = upper_tile(tl.program_id(0), TILES)
    offsets, inside = triangle_offsets(i, j, c, T)
    rows = i * T + tl.arange(0, T)
    columns = j * T + tl.arange(0, T)
    tl.store(out + offsets, rows[:, None] * c + columns[None, :], mask=inside)


@triton.jit
def symmetric_kernel(x, out, amount, SIZE: tl.constexpr, PARTS: tl.constexpr, T: tl.constexpr):
    i, j = upper_tile(tl.program_id(0), SIZE // T)
    value = add_diagonal(tl.load(tile_pointers(x, i, j, SIZE, T, T)), i, j, amount, T)
    store_symmetric(out, i, j, value, SIZE, PARTS, T)


@triton.jit
def copy_kernel(x, stored, back, part, kept, PARTS: tl.constexpr, T: tl.constexpr):
    value = tl.load(tile_pointers(x, 0, 0, T, T, T))
    pointers = tile_pointers(stored, 0, 0, T, T, T)
    where = (tl.arange(0, T)[:, None] < kept) & (tl.arange(0, T)[None, :] < T)
    store_operand(pointers, value, part, where, PARTS)
    tl.debug_barrier()
    tl.store(tile_pointers(back, 0, 0, T, T, T), load_operand(pointers, part, PARTS))


@triton.jit
def product_kernel(x, z, out, part, PARTS: tl.constexpr, T: tl.constexpr, BK: tl.constexpr, INNER: tl.constexpr):
    acc = product_nt(x, z, 0, 0, INNER, INNER, part, part, INNER, PARTS, T, T, BK)
    tl.store(tile_pointers(out, 0, 0, T, T, T), acc)


@triton.jit
def pair_kernel(x, dx, z, dz, out, dout, PARTS: tl.constexpr, APART: tl.constexpr, T: tl.constexpr):
    one = tl.full((T, T), 1.0, tl.float32)
    acc, dacc = step_pair_nt(tile_pointers(x, 0, 0, T, T, T), tile_pointers(dx, 0, 0, T, T, T),
                             tile_pointers(z, 0, 0, T, T, T), tile_pointers(dz, 0, 0, T, T, T),
                             one, one, T * T, PARTS, APART)
    tl.store(tile_pointers(out, 0, 0, T, T, T), acc)
    tl.store(tile_pointers(dout, 0, 0, T, T, T), dacc)

# fmt: on


@pytest.mark.parametrize("tiles", [1, 2, 3, 5])
def test_upper_tile_goes_row_by_row(tiles: int) -> None:
    expected = torch.triu_indices(tiles, tiles).T
    out = torch.full(expected.shape, -1, device=DEVICE)
    upper_tile_kernel[(len(expected),)](out, TILES=tiles)
    assert torch.equal(out.cpu(), expected)


@pytest.mark.parametrize("c", [1, 15, 16, 17, 33])
def test_triangle_offsets_are_those_of_triu_indices(c: int) -> None:
    rows, columns = torch.triu_indices(c, c)
    out = torch.full((len(rows),), -1, dtype=torch.int64, device=DEVICE)
    tiles = triton.cdiv(c, 16)
    triangle_kernel[(tiles * (tiles + 1) // 2,)](out, c, TILES=tiles, T=16)
    assert torch.equal(out.cpu(), rows * c + columns)


@pytest.mark.parametrize(("dtype", "parts", "largest"), STORAGES)
def test_store_symmetric_mirrors_and_add_diagonal_adds_once(dtype: torch.dtype, parts: int, largest: float) -> None:
    size = 48
    x = randn(size, size)
    x = x + x.T
    out = x.new_empty(parts, size, size, dtype=dtype)
    symmetric_kernel[(6,)](x, out, 1.5, SIZE=size, PARTS=parts, T=16)
    assert torch.equal(out, out.mT)
    assert relative_error(out.float().sum(0), x + 1.5 * torch.eye(size, device=DEVICE)) <= largest


@pytest.mark.parametrize(("dtype", "parts", "largest"), STORAGES)
def test_stored_operands_come_back(dtype: torch.dtype, parts: int, largest: float) -> None:
    x = randn(16, 16)
    stored, back = x.new_empty(parts, 16, 16, dtype=dtype), torch.empty_like(x)
    copy_kernel[(1,)](x, stored, back, 256, 16, PARTS=parts, T=16)
    assert torch.equal(back, stored.float().sum(0))
    assert relative_error(back, x) <= largest


@pytest.mark.parametrize("parts", [1, 2])
def test_what_is_masked_is_not_written(parts: int) -> None:
    x = randn(16, 16)
    stored, back = x.new_empty(parts, 16, 16, dtype=torch.float16), torch.empty_like(x)
    copy_kernel[(1,)](x, stored, back, 256, 11, PARTS=parts, T=16)
    assert stored[:, :11].isfinite().all()
    assert stored[:, 11:].isnan().all()


@pytest.mark.parametrize(("dtype", "parts", "largest"), STORAGES)
def test_product(dtype: torch.dtype, parts: int, largest: float) -> None:
    x, z = randn(32, 64), randn(32, 64, seed=1)
    out = x.new_empty(32, 32)
    product_kernel[(1,)](
        split(x, dtype, parts), split(z, dtype, parts), out, 32 * 64, PARTS=parts, T=32, BK=16, INNER=64
    )
    assert relative_error(out, x.double() @ z.double().T) <= largest


@pytest.mark.parametrize(("dtype", "parts", "largest"), STORAGES)
@pytest.mark.parametrize("apart", [True, False])
def test_product_with_its_derivative(dtype: torch.dtype, parts: int, largest: float, apart: bool) -> None:
    x, dx, z, dz = (randn(16, 16, seed=seed) for seed in range(4))
    out, dout = torch.empty_like(x), torch.empty_like(x)
    pair_kernel[(1,)](*(split(v, dtype, parts) for v in (x, dx, z, dz)), out, dout, PARTS=parts, APART=apart, T=16)
    x, dx, z, dz = (v.double() for v in (x, dx, z, dz))
    assert relative_error(out, 1 + x @ z.T) <= largest
    assert relative_error(dout, 1 + dx @ z.T + x @ dz.T) <= largest
