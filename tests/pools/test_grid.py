"""Resizing of maps, masks and weights, against interpolation as a matrix."""

import math

import pytest
import torch
from torch import Tensor

from covpool.pools._grid import resize_map, resize_positions


def weights_along(old: int, new: int) -> Tensor:  # (new, old)
    """Make the matrix of linear interpolation: pixel i of the new axis is at (i + 1/2) old / new - 1/2 of the old."""
    matrix = torch.zeros(new, old, dtype=torch.float64)
    for i in range(new):
        place = min(max((i + 0.5) * old / new - 0.5, 0), old - 1)
        low = min(math.floor(place), old - 1)
        high = min(low + 1, old - 1)
        matrix[i, low] += 1 - (place - low)
        matrix[i, high] += place - low
    return matrix


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("old", "new"), [((7, 7), (14, 14)), ((14, 10), (7, 5)), ((3, 5), (4, 7)), ((1, 1), (3, 2))])
def test_maps_are_resized_bilinearly(old: tuple[int, int], new: tuple[int, int]) -> None:
    x = randn(2, 3, *old)
    expected = weights_along(old[0], new[0]) @ x @ weights_along(old[1], new[1]).T
    torch.testing.assert_close(resize_map(x, new), expected)


def test_series_and_volumes_are_resized_along_every_axis() -> None:
    series = randn(2, 3, 5)
    torch.testing.assert_close(resize_map(series, (8,)), series @ weights_along(5, 8).T)
    volume = randn(2, 3, 2, 4, 5)
    expected = torch.einsum("bcthw,st,ih,jw->bcsij", volume, *map(weights_along, (2, 4, 5), (3, 6, 4)))
    torch.testing.assert_close(resize_map(volume, (3, 6, 4)), expected)


def test_gradient() -> None:
    assert torch.autograd.gradcheck(lambda x: resize_map(x, (3, 5)), randn(1, 2, 4, 3).requires_grad_())


def test_the_same_grid_changes_nothing() -> None:
    x, mask = randn(2, 3, 4, 5), torch.rand(2, 20) < 0.5
    assert resize_map(x, (4, 5)) is x
    assert resize_positions(mask, (4, 5), (4, 5)) is mask


def test_grids_with_equally_many_positions_may_differ() -> None:
    x = randn(1, 1, 2, 6)
    torch.testing.assert_close(resize_map(x, (3, 4)), weights_along(2, 3) @ x @ weights_along(6, 4).T)


@pytest.mark.parametrize(("old", "new"), [((2, 2), (4, 4)), ((4, 6), (2, 3)), ((3, 3), (7, 5)), ((4,), (6,))])
def test_a_mask_gets_the_nearest_entry(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    mask = torch.rand(2, math.prod(old), generator=torch.Generator().manual_seed(0)) < 0.5
    nearest = mask.unflatten(1, old)
    for axis, (k, m) in enumerate(zip(old, new, strict=True)):
        centres = [math.floor((i + 0.5) * k / m) for i in range(m)]
        nearest = nearest.index_select(1 + axis, torch.tensor(centres))
    found = resize_positions(mask, old, new)
    assert found.dtype == torch.bool
    assert torch.equal(found, nearest.flatten(1))
    torch.testing.assert_close(resize_positions(3 * mask.double(), old, new), 3 * nearest.flatten(1).double())


def test_empty_batch() -> None:
    x = torch.zeros(0, 3, 4, 4, requires_grad=True)
    z = resize_map(x, (2, 2))
    z.sum().backward()
    assert z.shape == (0, 3, 2, 2) and x.grad is not None
    assert resize_positions(torch.zeros(0, 16, dtype=torch.bool), (4, 4), (2, 2)).shape == (0, 4)


def test_tokens_are_never_interpolated() -> None:
    x = randn(2, 3, 6)
    assert resize_map(x, (6,), tokens=True) is x
    assert resize_map(x, (2, 3), tokens=True) is x
    for grid in ((5,), (2, 2)):
        with pytest.raises(ValueError, match=f"same positions; got {math.prod(grid)} and 6: give maps"):
            resize_map(x, grid, tokens=True)
    with pytest.raises(ValueError, match="got 4 and 6"):
        resize_positions(torch.ones(2, 6), (2, 3), (4,))
