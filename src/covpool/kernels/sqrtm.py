"""The Newton-Schulz root of given matrices on the GPU, forward and backward, as raw operations without autograd."""

from typing import Any

import torch
import triton
from torch import Tensor

from covpool.kernels import matrices
from covpool.kernels.features import TINY
from covpool.kernels.launch import MATRIX, Chain
from covpool.kernels.precision import mode
from covpool.kernels.vmap import fold_vmap


def _normalized(run: Chain, s: Tensor, postcomp: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The operand A = s / t, the traces t, and the scales of the result."""
    a, traces, scales = run.empty(run.b), s.new_empty(run.b), s.new_empty(run.b)
    matrices.normalize_kernel[(run.items, run.b)](
        s, a, traces, scales, run.counters, s.shape[1], *s.stride(), TINY, run.mode.y_scale, 1 / run.mode.y_scale,
        COMPENSATED=postcomp, **_constants(run),
    )  # fmt: skip
    return a, traces, scales


def _direction(run: Chain, g: Tensor) -> tuple[Tensor, Tensor]:
    """The operand H, the symmetric part of g divided by its norm, and the norms."""
    squares, norms = g.new_empty(run.b, run.items, dtype=torch.float64), g.new_empty(run.b)
    h, grid, c = run.empty(run.b), (run.items, run.b), g.shape[1]
    matrices.squares_of_tiles_kernel[grid](
        g, squares, c, *g.stride(), run.items, SIZE=run.size, T=run.tiling.tile, num_warps=run.tiling.warps
    )
    matrices.matrix_direction_kernel[grid](
        g, squares, norms, h, c, *g.stride(), run.items, run.mode.direction_scale * run.mode.y_scale,
        ITEMS=triton.next_power_of_2(run.items), **_constants(run),
    )  # fmt: skip
    return h, norms


def _constants(run: Chain) -> dict[str, Any]:
    return {"SIZE": run.size, "PARTS": run.mode.parts, "T": run.tiling.tile, "num_warps": run.tiling.warps}


@torch.library.custom_op("covpool::sqrtm_forward", mutates_args=())
def forward(s: Tensor, iterations: int, postcomp: bool, precision: str) -> Tensor:
    """The root of the symmetric part of matrices (b, c, c) in float32, normalised by their trace."""
    b, c, _ = s.shape
    run = Chain(b, c, iterations, mode(precision, iterations), s)
    a, _, scales = _normalized(run, s, postcomp)
    out = s.new_empty(b, c, c)
    run.value(a, out, scales, c, MATRIX)
    return out


@forward.register_fake
def _(s: Tensor, iterations: int, postcomp: bool, precision: str) -> Tensor:
    return s.new_empty(s.shape)


@torch.library.custom_op("covpool::sqrtm_backward", mutates_args=())
def backward(s: Tensor, g: Tensor, iterations: int, postcomp: bool, precision: str) -> Tensor:
    """The symmetric gradient in s, given the gradient of the root, of which only the symmetric part counts."""
    b, c, _ = s.shape
    run = Chain(b, c, iterations, mode(precision, iterations), s)
    a, traces, _ = _normalized(run, s, postcomp)
    h, norms = _direction(run, g)
    _, slope, sums = run.pair(a, h, factor=False)
    out = s.new_empty(b, c, c)
    matrices.matrix_gradient_kernel[(run.items, b)](
        slope, sums, norms, traces, out, c, 1 / run.mode.direction_scale, 0.5 if postcomp else 0.0, TINY,
        sums.shape[1], COMPENSATED=postcomp, ITEMS=triton.next_power_of_2(sums.shape[1]), **_constants(run),
    )  # fmt: skip
    return out


@backward.register_fake
def _(s: Tensor, g: Tensor, iterations: int, postcomp: bool, precision: str) -> Tensor:
    return s.new_empty(s.shape)


fold_vmap(forward, outputs=1)
fold_vmap(backward, outputs=1)
