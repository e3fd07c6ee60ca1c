"""The Newton-Schulz root of given matrices on the GPU, forward and backward, as raw operations without autograd."""

import torch
from torch import Tensor

from covpool.kernels.features import TINY, squared_lengths
from covpool.kernels.launch import MATRIX, Chain
from covpool.kernels.precision import mode
from covpool.kernels.vmap import fold_vmap


def _operand(run: Chain, value: Tensor) -> Tensor:
    """(b, c, c) float32 matrices as (b, parts, size, size) operands, padded with zeros."""
    c = value.shape[-1]
    out = run.empty(value.shape[0]).zero_()
    out[:, 0, :c, :c] = value
    if run.mode.parts == 2:
        out[:, 1, :c, :c] = value - out[:, 0, :c, :c]
    return out


def _trace(s: Tensor) -> tuple[Tensor, Tensor]:
    """The traces (b, 1, 1) and their reciprocals, zero for a zero matrix."""
    t = s.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
    zero = t.abs() < TINY
    return t, torch.where(zero, 0, 1 / torch.where(zero, 1, t))


@torch.library.custom_op("covpool::sqrtm_forward", mutates_args=())
def forward(s: Tensor, iterations: int, postcomp: bool, precision: str) -> Tensor:
    """The root of symmetric matrices (b, c, c), normalised by their trace."""
    b, c, _ = s.shape
    run = Chain(b, c, iterations, mode(precision, iterations), s)
    t, reciprocal = _trace(s)
    a = _operand(run, s * reciprocal * run.mode.y_scale)
    scales = (t.flatten().sqrt() if postcomp else torch.ones_like(t.flatten())) / run.mode.y_scale
    out = s.new_empty(b, c, c)
    run.value(a, out, scales, c, MATRIX)
    return out


@forward.register_fake
def _(s: Tensor, iterations: int, postcomp: bool, precision: str) -> Tensor:
    return s.new_empty(s.shape)


@torch.library.custom_op("covpool::sqrtm_backward", mutates_args=())
def backward(s: Tensor, g: Tensor, iterations: int, postcomp: bool, precision: str) -> Tensor:
    """The gradient in s from a symmetric upstream gradient g."""
    b, c, _ = s.shape
    run = Chain(b, c, iterations, mode(precision, iterations), s)
    _, reciprocal = _trace(s)
    a = _operand(run, s * reciprocal * run.mode.y_scale)
    norm = squared_lengths(g.flatten(1).contiguous()).sum(1).sqrt().float().reshape(b, 1, 1)
    scale = run.mode.direction_scale
    h = _operand(run, g * (scale / torch.where(norm == 0, 1, norm)) * run.mode.y_scale)
    _, slope, sums = run.pair(a, h, factor=False)
    value, inner = sums.sum(1)[:, :, None, None].unbind(1)
    coefficient = (0.5 * value if postcomp else 0) - inner
    gradient = slope[:, :, :c, :c].float().sum(1)
    gradient.diagonal(dim1=-2, dim2=-1).add_(coefficient[..., 0])
    return gradient * (norm / scale) * (reciprocal.sqrt() if postcomp else reciprocal)


@backward.register_fake
def _(s: Tensor, g: Tensor, iterations: int, postcomp: bool, precision: str) -> Tensor:
    return s.new_empty(s.shape)


fold_vmap(forward, outputs=1)
fold_vmap(backward, outputs=1)
