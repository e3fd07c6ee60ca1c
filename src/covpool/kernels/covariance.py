"""The covariance of features on the GPU, forward and backward, as raw operations without autograd."""

from typing import Any

import torch
from torch import Tensor

from covpool.kernels import products
from covpool.kernels.adjoint import channel_launch, feature_gradient, matrix_direction, triangle_direction
from covpool.kernels.features import Features
from covpool.kernels.launch import Chain
from covpool.kernels.operation import custom_operation
from covpool.kernels.plan import Planned, launch_kernel
from covpool.kernels.precision import mode
from covpool.kernels.shape import padded, triangle_tiles

ITERATIONS = 3  # of the chain, which does not run here: only its tiles and scales are used


def _forward(x: Tensor, w: Tensor | None, centered: bool, full: bool, precision: str) -> tuple[Tensor, ...]:
    m = mode(precision, ITERATIONS)
    b, n, c = x.shape
    run = Chain(b, c, ITERATIONS, m, x)
    tile = run.tiling.channel_tile
    width = padded(c, tile)
    f, kt = Features.whitened(x, w, m, (width, padded(n, run.tiling.inner)), centered)
    out = f.mean.new_empty(f.b, f.c, f.c) if full else f.mean.new_empty(f.b, f.c * (f.c + 1) // 2)
    launch_kernel(
        products.covariance_kernel, (triangle_tiles(width, tile), f.b),
        kt, f.squares, out, f.c, kt.stride(0), kt.stride(2), kt.stride(1), kt.shape[3], out.stride(0),
        1 / m.k_scale, FULL=full, TILES=width // tile, T=tile, BK=run.tiling.inner, PARTS=m.parts,
        **channel_launch(run),
    )  # fmt: skip
    return out, f.mean, f.squares


def _backward(
    x: Tensor, w: Tensor | None, mean: Tensor, squares: Tensor, g: Tensor, full: bool, precision: str
) -> tuple[Tensor, ...]:
    m = mode(precision, ITERATIONS)
    f = Features(x, w, m, (mean, squares))
    run = Chain(f.b, f.c, ITERATIONS, m, x)
    if full:
        h, norms = matrix_direction(run, g, m.direction_scale)
    else:
        h = run.empty(f.b)
        norms = triangle_direction(run, g, h, f.c, m.direction_scale)
    k, _, trace, _ = f.operands((padded(f.n, run.tiling.tile), run.size), None)
    return (feature_gradient(f, run, (h, k), None, None, norms, trace, roots=1),)


_planned_forward, _planned_backward = Planned(_forward), Planned(_backward)


def forward_eager(
    x: Tensor, w: Tensor | None, centered: bool, full: bool, precision: str
) -> tuple[Tensor, Tensor, Tensor]:
    """The covariance, and the mean and the squares for the backward pass.

    Args:
        x: Features (b, n, c) with any strides.
        w: Weights (b, n) that sum to one, or None.
        centered: False gives the second moment about zero.
        full: Return matrices (b, c, c) instead of upper triangles (b, c (c + 1) / 2).
        precision: A `Precision`.
    """
    out, mean, squares = _planned_forward((x, None if w is None else w.contiguous()), centered, full, precision)
    return out, mean, squares


def value_eager(x: Tensor, w: Tensor | None, *options: Any) -> Tensor:
    """The covariance alone, where no backward pass follows."""
    return _planned_forward((x, None if w is None else w.contiguous()), *options, outputs=1)[0]


def backward_eager(
    x: Tensor, w: Tensor | None, mean: Tensor, squares: Tensor, g: Tensor, full: bool, precision: str
) -> Tensor:
    """The gradient with respect to x, given the gradient of the covariance, in any strides if it is full."""
    tensors = (x, None if w is None else w.contiguous(), mean, squares, g if full else g.contiguous())
    return _planned_backward(tensors, full, precision)[0]


def _shapes(x: Tensor, w: Tensor | None, centered: bool, full: bool, precision: str) -> tuple[Tensor, ...]:
    b, _, c = x.shape
    out = (b, c, c) if full else (b, c * (c + 1) // 2)
    return tuple(x.new_empty(shape, dtype=torch.float32) for shape in (out, (b, 2, c), (b, c)))


forward = custom_operation("covariance_forward", forward_eager, _shapes)
backward = custom_operation("covariance_backward", backward_eager, lambda x, *_: torch.empty_like(x))
