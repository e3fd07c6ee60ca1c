"""Feature tensors on different grids: resizing of maps, masks and weights."""

import math
from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import interpolate

from covpool._check_tensors import check_positions
from covpool._errors import CovpoolError

Grid = tuple[int, ...]
Positions = Tensor | tuple[Tensor, ...] | None  # a mask or weights (b, n), or one for each feature tensor

LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def flatten_positions(name: str, value: Tensor, positions: tuple[int, ...]) -> Tensor:
    """Check a mask or weights and return them as (b, n)."""
    flat = (positions[0], math.prod(positions[1:]))
    check_positions(name, value, *dict.fromkeys((positions, flat)))
    return value.reshape(flat)


def for_each(value: Positions, features: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """Return a mask or weights for each feature tensor: its own, or the shared one."""
    return value if isinstance(value, tuple) else (value,) * len(features)


def resize_map(
    x: Tensor,  # (b, c, *grid)
    grid: Grid,
    *,
    tokens: bool = False,
) -> Tensor:  # (b, c, *grid)
    """Resize x to another grid by linear interpolation along each axis (bilinear for images).

    Tokens have no grid: they keep their order, and their number must match.

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
    """Resize a mask or weights to another grid; each new position takes the entry of the nearest old position.

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
    """Return whether two grids have the same positions; refuse grids that differ and cannot be interpolated."""
    if not tokens and len(old) == len(new):
        return old == new
    if math.prod(old) != math.prod(new):
        raise CovpoolError(
            f"feature tensors must have the same positions; got {math.prod(new)} and {math.prod(old)}: "
            "give maps with the same number of axes, which are resized, or equally many tokens"
        )
    return True
