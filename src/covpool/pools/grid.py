"""Feature tensors with different positions: bringing maps, masks and weights from one grid to another."""

import math
from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import interpolate

from covpool._check_tensors import check_positions
from covpool._errors import CovpoolError

Grid = tuple[int, ...]
Positions = Tensor | tuple[Tensor, ...] | None  # a mask or weights (b, n), or one for every feature tensor

LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def flatten_positions(name: str, value: Tensor | None, positions: tuple[int, ...]) -> Tensor | None:
    """A mask or weights as (b, n)."""
    if value is None:
        return None
    flat = (positions[0], math.prod(positions[1:]))
    check_positions(name, value, *dict.fromkeys((positions, flat)))
    return value.reshape(flat)


def for_each(value: Positions, features: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """A mask or weights for every feature tensor: its own, or the one they share."""
    return value if isinstance(value, tuple) else (value,) * len(features)


def resize_map(
    x: Tensor,  # (b, c, *grid)
    grid: Grid,
    *,
    tokens: bool = False,
) -> Tensor:  # (b, c, *grid)
    """x at the positions of another grid, by linear interpolation along each axis (bilinear for images).

    Tokens have no grid to interpolate on: they are taken in the order they come, and another number is refused.

    >>> import torch
    >>> resize_map(torch.tensor([[[[0., 4.]]]]), (1, 4)).tolist()
    [[[[0.0, 1.0, 3.0, 4.0]]]]
    """
    old = tuple(x.shape[2:])
    if _are_the_same(old, grid, tokens):
        return x
    return interpolate(x, grid, mode=LINEAR[len(grid)])


def resize_positions(
    value: Tensor,  # (b, n)
    old: Grid,
    new: Grid,
    *,
    tokens: bool = False,
) -> Tensor:  # (b, m)
    """A mask or weights of the positions of one grid for those of another: each gets the entry of the nearest one.

    >>> import torch
    >>> resize_positions(torch.tensor([[True, False]]), (1, 2), (1, 4)).tolist()
    [[True, True, False, False]]
    """
    if _are_the_same(old, new, tokens):
        return value
    real = value if value.is_floating_point() else value.float()
    resized = interpolate(real.unsqueeze(1).unflatten(-1, old), new, mode="nearest-exact")
    return resized.flatten(1).to(value.dtype)


def _are_the_same(old: Grid, new: Grid, tokens: bool) -> bool:
    """Whether two grids have the same positions; refuses those that have not and cannot be interpolated."""
    if not tokens and len(old) == len(new):
        return old == new
    if math.prod(old) != math.prod(new):
        raise CovpoolError(
            f"feature tensors must have the same positions; got {math.prod(new)} and {math.prod(old)}: "
            "only maps with the same number of axes are resized, give those or as many tokens"
        )
    return True
