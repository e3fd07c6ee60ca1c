"""iSQRT-COV of features on the GPU, forward and backward, as raw operations without autograd.

The kernels cover everything from the features to the triangle of the result. `covpool.ops` wraps them in Functions.
"""

from typing import Any

import torch
from torch import Tensor

from covpool.kernels import products
from covpool.kernels.adjoint import Along, channel_launch, feature_gradient, triangle_direction
from covpool.kernels.features import Features
from covpool.kernels.launch import OPERAND, TRIANGLE, Chain
from covpool.kernels.operation import custom_operation
from covpool.kernels.plan import Planned, launch_kernel
from covpool.kernels.precision import Mode, mode
from covpool.kernels.shape import padded, triangle_tiles


def triangle(c: int) -> int:
    return c * (c + 1) // 2


def forward_primal(x: Tensor, w: Tensor | None, iterations: int, m: Mode, postcomp: bool) -> tuple[Tensor, ...]:
    """Return the triangle of the result, A, the mean and the squares."""
    b, n, c = x.shape
    run = Chain(b, c, iterations, m, x)
    f, kt = Features.whitened(x, w, m, (run.size, padded(n, run.tiling.inner)))
    a, scales = run.empty(b), f.mean.new_empty(b)
    run.whitened_gram(kt, f.squares, a, scales, postcomp)
    out = f.mean.new_empty(b, triangle(c))
    run.value(a, out, scales, f.c, TRIANGLE)
    return out, a, f.mean, f.squares


def forward_dual(x: Tensor, w: Tensor | None, iterations: int, m: Mode, postcomp: bool) -> tuple[Tensor, ...]:
    """Return the triangle of the result, A, the mean and the squares."""
    f = Features(x, w, m)
    run = Chain(f.b, f.n, iterations, m, x)
    width = padded(f.c, run.tiling.channel_tile)
    k, kt, _, scales = f.operands((run.size, width), (width, run.size), 1 / m.k_scale**2, postcomp)
    a, p = run.empty(f.b), run.empty(f.b)
    run.gram(k, k, a)
    run.value(a, p, scales, f.n, OPERAND)
    wt = torch.empty_like(kt)
    _product(kt, p, wt, None, run)
    out = f.mean.new_empty(f.b, triangle(f.c))
    launch_kernel(
        products.triangle_kernel, (triangle_tiles(width, run.tiling.channel_tile), f.b),
            kt, wt, out, scales, f.c, kt.stride(0), kt.stride(2), kt.stride(1), run.size, out.stride(0),
        TILES=width // run.tiling.channel_tile, PARTS=m.parts, T=run.tiling.channel_tile, BK=run.tiling.inner,
        **channel_launch(run),
    )  # fmt: skip
    return out, a, f.mean, f.squares


def _product(x: Tensor, z: Tensor, out: Tensor, out_t: Tensor | None, run: Chain) -> None:
    """out = x z^T for rows of x in channel tiles and rows of z in the chain's tiles; out_t, if given, its transpose."""
    columns = z.shape[2] // run.tiling.tile
    second = out if out_t is None else out_t
    launch_kernel(
        products.product_kernel, (x.shape[2] // run.tiling.channel_tile * columns, x.shape[0]),
            x, z, out, second, x.stride(0), z.stride(0), out.stride(0), x.stride(2), z.stride(2), out.stride(2),
        second.stride(2), x.stride(1), z.stride(1), out.stride(1), x.shape[3], columns,
        BOTH=out_t is not None, PARTS=run.mode.parts, TI=run.tiling.channel_tile, TJ=run.tiling.tile,
        BK=run.tiling.inner, **channel_launch(run),
    )  # fmt: skip


def backward_primal(f: Features, a: Tensor, g: Tensor, iterations: int, postcomp: bool) -> Tensor:
    m = f.mode
    run = Chain(f.b, f.c, iterations, m, f.x)
    h = run.empty(f.b)
    norms = triangle_direction(run, g, h, f.c, m.direction_scale * m.y_scale)
    _, slope, sums = run.pair(a, h, factor=False)
    del h
    k, _, trace, _ = f.operands((padded(f.n, run.tiling.tile), run.size), None, 1.0, postcomp)
    along = Along((k, 1, k.stride(2)), sums, (1.0 if postcomp else 0.0, -2.0))
    return feature_gradient(f, run, (slope, k), None, along, norms, trace, 0 if postcomp else -1)


def backward_dual(f: Features, a: Tensor, g: Tensor, iterations: int, postcomp: bool) -> Tensor:
    m = f.mode
    run = Chain(f.b, f.n, iterations, m, f.x)
    width = padded(f.c, run.tiling.channel_tile)
    k, kt, trace, _ = f.operands((run.size, width), (width, run.size), 1.0, postcomp)
    s = k.new_empty(f.b, m.parts, width, width)
    norms = triangle_direction(run, g, s, f.c, m.direction_scale)
    kst, ks = torch.empty_like(kt), torch.empty_like(k)
    _product(s, k, kst, ks, run)
    h = run.empty(f.b)
    run.gram(ks, k, h)
    p, dp, sums = run.pair(a, h, factor=True)
    along = Along((kt, kt.stride(2), 1), sums, (-1.0 if postcomp else -2.0, -2.0))
    return feature_gradient(f, run, (kst, p), (kt, dp), along, norms, trace, 0 if postcomp else -1)


def _forward(
    x: Tensor, w: Tensor | None, form: str, iterations: int, postcomp: bool, precision: str
) -> tuple[Tensor, ...]:
    run = forward_primal if form == "primal" else forward_dual
    return run(x, w, iterations, mode(precision, iterations), postcomp)


def _backward(
    x: Tensor, w: Tensor | None, a: Tensor, mean: Tensor, squares: Tensor, g: Tensor,
    form: str, iterations: int, postcomp: bool, precision: str,
) -> tuple[Tensor, ...]:  # fmt: skip
    f = Features(x, w, mode(precision, iterations), (mean, squares))
    run = backward_primal if form == "primal" else backward_dual
    return (run(f, a, g, iterations, postcomp),)


_planned_forward, _planned_backward = Planned(_forward), Planned(_backward)


def forward_eager(
    x: Tensor, w: Tensor | None, form: str, iterations: int, postcomp: bool, precision: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The triangle of the result (b, c (c + 1) / 2), and A, mean and squares for the backward pass.

    Args:
        x: Features (b, n, c) with any strides.
        w: Weights (b, n) that sum to one, or None.
        form: Either "primal" or "dual".
        iterations: Number of iterations N, 3 to 7.
        postcomp: Multiply by sqrt(t).
        precision: A `Precision`.
    """
    tensors = (x, None if w is None else w.contiguous())
    out, a, mean, squares = _planned_forward(tensors, form, iterations, postcomp, precision)
    return out, a, mean, squares


def value_eager(x: Tensor, w: Tensor | None, *options: Any) -> Tensor:
    """The triangle alone, where no backward pass follows."""
    return _planned_forward((x, None if w is None else w.contiguous()), *options, outputs=1)[0]


def backward_eager(
    x: Tensor, w: Tensor | None, a: Tensor, mean: Tensor, squares: Tensor, g: Tensor,
    form: str, iterations: int, postcomp: bool, precision: str,
) -> Tensor:  # fmt: skip
    """The gradient with respect to x, given the gradient of the triangle."""
    tensors = (x, None if w is None else w.contiguous(), a, mean, squares, g.contiguous())
    return _planned_backward(tensors, form, iterations, postcomp, precision)[0]


def _shapes(
    x: Tensor, w: Tensor | None, form: str, iterations: int, postcomp: bool, precision: str
) -> tuple[Tensor, ...]:
    b, n, c = x.shape
    run = Chain(b, c if form == "primal" else n, iterations, mode(precision, iterations), x)
    moments = torch.float32
    return (
        x.new_empty(b, triangle(c), dtype=moments),
        run.empty(b),
        x.new_empty(b, 2, c, dtype=moments),
        x.new_empty(b, c, dtype=moments),
    )


forward = custom_operation("isqrt_forward", forward_eager, _shapes)
backward = custom_operation("isqrt_backward", backward_eager, lambda x, *_: torch.empty_like(x))
