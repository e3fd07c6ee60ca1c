"""The element-wise power normalization (E-PN) of vectors on the GPU: the signed square root, then unit length."""

import triton
import triton.language as tl
from torch import Tensor

from covpool.kernels.features import SHARES
from covpool.kernels.plan import Planned, launch_kernel

# fmt: off

BLOCK = 4096  # entries of a vector at a time
SLOPE_EPS = tl.constexpr(1e-8)  # in the unit of z; keeps the slope of B-CNN finite at zero
DAMPING = tl.constexpr(0.1)  # in the unit of sqrt(z); the same for compact bilinear pooling


@triton.jit
def signed_root(z):
    """sign(z) sqrt(|z|); NaN stays NaN."""
    root = tl.sqrt(tl.abs(z))
    return tl.where(z < 0, -root, root)


@triton.jit
def total_of(sums, vector, SHARES: tl.constexpr):
    return tl.sum(tl.load(sums + vector * SHARES + tl.arange(0, SHARES)), 0)


@triton.jit
def root_sums_kernel(z, g, sums, size, GRADIENT: tl.constexpr, SHARES: tl.constexpr, BLOCK: tl.constexpr):
    """Sum a share of |z|, the squared length of the signed root; with GRADIENT, of the signed root times g."""
    vector = tl.program_id(0).to(tl.int64)
    share = tl.program_id(1)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(share * BLOCK, size, SHARES * BLOCK):
        index = first + tl.arange(0, BLOCK)
        value = tl.load(z + vector * size + index, mask=index < size, other=0.0)
        if GRADIENT:
            total += signed_root(value) * tl.load(g + vector * size + index, mask=index < size, other=0.0)
        else:
            total += tl.abs(value)
    tl.store(sums + vector * SHARES + share, tl.sum(total, 0))


@triton.jit
def normalize_root_kernel(z, sums, y, size, eps, SHARES: tl.constexpr, BLOCK: tl.constexpr):
    """y = v / max(|v|, eps) for the signed root v of z."""
    vector = tl.program_id(0).to(tl.int64)
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    length = tl.sqrt(total_of(sums, vector, SHARES))
    value = tl.load(z + vector * size + index, mask=index < size, other=0.0)
    tl.store(y + vector * size + index, signed_root(value) / tl.where(length > eps, length, eps), mask=index < size)


@triton.jit
def normalize_root_gradient_kernel(z, g, sums, inner, dz, size, eps,
                                   DAMPED: tl.constexpr, SHARES: tl.constexpr, BLOCK: tl.constexpr):
    """dz = slope(z) (g - v <v, g> / |v|^2) / max(|v|, eps). A vector shorter than eps has no second term."""
    vector = tl.program_id(0).to(tl.int64)
    index = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    square = total_of(sums, vector, SHARES)
    length = tl.sqrt(square)
    whole = length > eps
    along = tl.where(whole, total_of(inner, vector, SHARES) / tl.where(whole, square, 1.0), 0.0)
    value = tl.load(z + vector * size + index, mask=index < size, other=0.0)
    result = tl.load(g + vector * size + index, mask=index < size, other=0.0) - signed_root(value) * along
    if DAMPED:
        slope = 0.5 / (tl.sqrt(tl.abs(value)) + DAMPING)
    else:
        slope = 0.5 / tl.sqrt(tl.abs(value) + SLOPE_EPS)
    tl.store(dz + vector * size + index, result * slope / tl.where(whole, length, eps), mask=index < size)


# fmt: on
def _sums(z: Tensor, g: Tensor | None) -> Tensor:
    sums = z.new_empty(z.shape[0], SHARES)
    launch_kernel(
        root_sums_kernel, (z.shape[0], SHARES), z, z if g is None else g, sums, z.shape[1],
        GRADIENT=g is not None, SHARES=SHARES, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
    return sums


def _forward(z: Tensor, eps: float) -> tuple[Tensor, ...]:
    sums, y = _sums(z, None), z.new_empty(z.shape)
    launch_kernel(
        normalize_root_kernel, (z.shape[0], triton.cdiv(z.shape[1], BLOCK)), z, sums, y, z.shape[1], eps,
        SHARES=SHARES, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
    return y, sums


def _backward(z: Tensor, sums: Tensor, g: Tensor, eps: float, damped: bool) -> tuple[Tensor, ...]:
    inner, dz = _sums(z, g), z.new_empty(z.shape)
    launch_kernel(
        normalize_root_gradient_kernel, (z.shape[0], triton.cdiv(z.shape[1], BLOCK)),
        z, g, sums, inner, dz, z.shape[1], eps, DAMPED=damped, SHARES=SHARES, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
    return (dz,)


_planned_forward, _planned_backward = Planned(_forward), Planned(_backward)


def forward_eager(z: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The normalized vectors (b, d) of contiguous float32 vectors, and the sums for the backward pass."""
    y, sums = _planned_forward((z,), eps)
    return y, sums


def backward_eager(z: Tensor, sums: Tensor, g: Tensor, eps: float, damped: bool) -> Tensor:
    """The gradient in z, with the slope of compact bilinear pooling if `damped`, else that of B-CNN."""
    return _planned_backward((z, sums, g.contiguous()), eps, damped)[0]
