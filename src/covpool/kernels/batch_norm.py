"""Batch norm with the activation behind it, for feature maps whose channels are contiguous in memory.

Torch has no fused batch norm for bfloat16 in this layout. It reads a map five times and writes it twice in the forward
pass of a batch norm and a ReLU; these kernels read it twice and write it once, and keep one map instead of two.
A map is read as rows of c channels, one row per position of an image.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from covpool.kernels.gpu import multiprocessors
from covpool.kernels.plan import Planned, launch_kernel

# fmt: off

TILE = 4096  # entries of a map that a program computes
SUMMED_BYTES = 16 * 1024  # of a map that a program sums at a time; two maps twice fit into 99 KiB of shared memory
SUMMING_WARPS = 8
STAGES = 3  # tiles to sum that are loaded at a time
MOST_CHANNELS = 64  # of a tile: 128 bytes of half-precision numbers, which memory transfers at once
LEAST_CHANNELS = 32
UNIT = 8  # kernels get the channels as a multiple of it, so that the compiler knows it may load 16 bytes at once
MERGED_CHANNELS = 16  # of a program that merges the shares
MOST_SHARES = 512  # of the rows; each share is summed by a program of its own for each block of channels
PROGRAMS = 4  # per multiprocessor, if there are enough rows


@triton.jit
def load_rows(x, rows, channels, m, c):
    """Rows of a map in float32 (zero outside), where they are in memory, and which of them are inside."""
    offsets = rows.to(tl.int64)[:, None] * c + channels[None, :]
    inside = (rows[:, None] < m) & (channels[None, :] < c)
    return tl.load(x + offsets, mask=inside, other=0.0).to(tl.float32), offsets, inside


@triton.jit
def load_channels(values, channels, c):
    return tl.load(values + channels, mask=channels < c, other=0.0).to(tl.float32)[None, :]


@triton.jit
def activated(z, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        z = tl.where(z < 0, 0.0, z)  # NaN stays NaN
    elif ACTIVATION == "relu6":
        z = tl.where(z < 0, 0.0, tl.where(z > 6, 6.0, z))
    elif ACTIVATION == "silu":
        z = z * tl.sigmoid(z)
    return z


@triton.jit
def through_activation(g, z, ACTIVATION: tl.constexpr):
    """The gradient g of the activation of z, times its slope at z."""
    if ACTIVATION == "relu":
        g = tl.where(z <= 0, 0.0, g)
    elif ACTIVATION == "relu6":
        g = tl.where((z <= 0) | (z >= 6), 0.0, g)
    elif ACTIVATION == "silu":
        s = tl.sigmoid(z)
        g = g * s * (1 + z * (1 - s))
    return g


@triton.jit(do_not_specialize=["m", "share"])
def batch_moments_kernel(x, parts, m, units, share,
                         UNIT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr, STAGES: tl.constexpr):
    """The mean of each channel over a share of the rows, in two parts, and the sum of the squared deviations from it.

    The first part is the mean of the first rows of the share. The second is small, so large means cost no accuracy.
    """
    c = units * UNIT
    channels = tl.program_id(0) * BC + tl.arange(0, BC)
    first = tl.program_id(1) * share
    stop = tl.minimum(first + share, m)
    tile, _, inside = load_rows(x, first + tl.arange(0, BR), channels, stop, c)
    pivot = (tl.sum(tile, 0) / tl.minimum(BR, stop - first))[None, :]
    total = tl.zeros((BR, BC), tl.float32)
    square = total
    for start in tl.range(first, stop, BR, num_stages=STAGES):
        tile, _, inside = load_rows(x, start + tl.arange(0, BR), channels, stop, c)
        tile = tl.where(inside, tile - pivot, 0.0)
        total += tile
        square += tile * tile
    rows = stop - first
    mean = tl.sum(total, 0) / rows
    part = parts + tl.program_id(1).to(tl.int64) * (3 * c) + channels
    tl.store(part, tl.sum(pivot, 0), mask=channels < c)
    tl.store(part + c, mean, mask=channels < c)
    tl.store(part + 2 * c, tl.sum(square, 0) - rows * mean * mean, mask=channels < c)


@triton.jit
def load_part(parts, number, channels, c, shares, NUMBERS: tl.constexpr, SHARES: tl.constexpr):
    """One of the numbers that the shares have for each channel, (SHARES, channels); zero beyond the last share."""
    index = tl.arange(0, SHARES)
    offsets = (index[:, None].to(tl.int64) * NUMBERS + number) * c + channels[None, :]
    return tl.load(parts + offsets, mask=(index[:, None] < shares) & (channels[None, :] < c), other=0.0)


@triton.jit(do_not_specialize=["m", "share", "shares"])
def merge_batch_moments_kernel(parts, mean, variance, running_mean, running_variance, batches, m, units, share, shares,
                               momentum, TRACKED: tl.constexpr,
                               SHARES: tl.constexpr, UNIT: tl.constexpr, BC: tl.constexpr):
    """The mean and the biased variance of each channel over all rows. TRACKED: also update the running statistics."""
    c = units * UNIT
    channels = tl.program_id(0) * BC + tl.arange(0, BC)
    pivots = load_part(parts, 0, channels, c, shares, 3, SHARES)
    means = load_part(parts, 1, channels, c, shares, 3, SHARES)
    squares = load_part(parts, 2, channels, c, shares, 3, SHARES)
    left = m - tl.arange(0, SHARES) * share  # rows from this share on
    rows = tl.maximum(tl.minimum(left, share), 0).to(tl.float32)[:, None]
    average = tl.sum(rows * (pivots + means), 0) / m
    apart = pivots - average[None, :] + means
    average += tl.sum(rows * apart, 0) / m  # what rounding took
    total = tl.sum(squares + rows * apart * apart, 0)
    there = channels < c
    tl.store(mean + channels, average, mask=there)
    tl.store(variance + channels, total / m, mask=there)
    if TRACKED:
        old = tl.load(running_mean + channels, mask=there, other=0.0)
        tl.store(running_mean + channels, old + momentum * (average - old), mask=there)
        old = tl.load(running_variance + channels, mask=there, other=0.0)
        tl.store(running_variance + channels, old + momentum * (total / (m - 1) - old), mask=there)
        if tl.program_id(0) == 0:
            tl.store(batches, tl.load(batches) + 1)


@triton.jit
def tile_of(program, c, BR: tl.constexpr, BC: tl.constexpr):
    """The rows and channels of a program's tile. Tiles of the same rows follow each other."""
    blocks = tl.cdiv(c, BC)
    return (program // blocks) * BR + tl.arange(0, BR), (program % blocks) * BC + tl.arange(0, BC)


@triton.jit(do_not_specialize=["m"])
def normalize_batch_kernel(x, y, mean, variance, weight, bias, m, units, eps,
                           ACTIVATION: tl.constexpr, UNIT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """y = activation(weight (x - mean) / sqrt(variance + eps) + bias)."""
    c = units * UNIT
    rows, channels = tile_of(tl.program_id(0), c, BR, BC)
    scale = load_channels(weight, channels, c) * tl.rsqrt(load_channels(variance, channels, c) + eps)
    tile, offsets, inside = load_rows(x, rows, channels, m, c)
    z = (tile - load_channels(mean, channels, c)) * scale + load_channels(bias, channels, c)
    tl.store(y + offsets, activated(z, ACTIVATION).to(y.dtype.element_ty), mask=inside)


@triton.jit
def load_gradient(x, g, rows, channels, m, c, mean, scale, weight, bias, ACTIVATION: tl.constexpr):
    """The normalized rows and the gradient before the activation, and where they are."""
    tile, offsets, inside = load_rows(x, rows, channels, m, c)
    normal = tl.where(inside, (tile - mean) * scale, 0.0)
    slope = tl.load(g + offsets, mask=inside, other=0.0).to(tl.float32)
    return normal, through_activation(slope, normal * weight + bias, ACTIVATION), offsets, inside


@triton.jit(do_not_specialize=["m", "share"])
def batch_gradient_sums_kernel(x, g, mean, variance, weight, bias, parts, m, units, share, eps,
                               ACTIVATION: tl.constexpr, UNIT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr,
                               STAGES: tl.constexpr):
    """The gradients of bias and weight from a share of the rows."""
    c = units * UNIT
    channels = tl.program_id(0) * BC + tl.arange(0, BC)
    first = tl.program_id(1) * share
    stop = tl.minimum(first + share, m)
    average = load_channels(mean, channels, c)
    scale = tl.rsqrt(load_channels(variance, channels, c) + eps)
    factor, shift = load_channels(weight, channels, c), load_channels(bias, channels, c)
    total = tl.zeros((BR, BC), tl.float32)
    product = total
    for start in tl.range(first, stop, BR, num_stages=STAGES):
        normal, slope, _, _ = load_gradient(x, g, start + tl.arange(0, BR), channels, stop, c, average, scale, factor,
                                            shift, ACTIVATION)
        total += slope
        product += slope * normal
    part = parts + tl.program_id(1).to(tl.int64) * (2 * c) + channels
    tl.store(part, tl.sum(total, 0), mask=channels < c)
    tl.store(part + c, tl.sum(product, 0), mask=channels < c)


@triton.jit(do_not_specialize=["shares"])
def merge_batch_gradients_kernel(parts, dweight, dbias, units, shares,
                                 SHARES: tl.constexpr, UNIT: tl.constexpr, BC: tl.constexpr):
    c = units * UNIT
    channels = tl.program_id(0) * BC + tl.arange(0, BC)
    there = channels < c
    tl.store(dbias + channels, tl.sum(load_part(parts, 0, channels, c, shares, 2, SHARES), 0), mask=there)
    tl.store(dweight + channels, tl.sum(load_part(parts, 1, channels, c, shares, 2, SHARES), 0), mask=there)


@triton.jit(do_not_specialize=["m"])
def batch_gradient_kernel(x, g, mean, variance, weight, bias, dweight, dbias, dx, m, units, eps,
                          ACTIVATION: tl.constexpr, UNIT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """dx = weight / sqrt(variance + eps) (g' - (dbias + normal dweight) / m), g' the gradient before the activation."""
    c = units * UNIT
    rows, channels = tile_of(tl.program_id(0), c, BR, BC)
    scale = tl.rsqrt(load_channels(variance, channels, c) + eps)
    factor, average = load_channels(weight, channels, c), load_channels(mean, channels, c)
    normal, slope, offsets, inside = load_gradient(x, g, rows, channels, m, c, average, scale, factor,
                                                   load_channels(bias, channels, c), ACTIVATION)
    common = (load_channels(dbias, channels, c) + normal * load_channels(dweight, channels, c)) / m
    tl.store(dx + offsets, (factor * scale * (slope - common)).to(dx.dtype.element_ty), mask=inside)


# fmt: on
class Grid:
    """How the rows of a map are divided among programs.

    Args:
        x: A map (b, c, h, w) whose channels are contiguous.
    """

    def __init__(self, x: Tensor) -> None:
        self.c = x.shape[1]
        self.m = x.numel() // self.c
        self.block = LEAST_CHANNELS if self.c <= LEAST_CHANNELS else MOST_CHANNELS
        self.blocks = triton.cdiv(self.c, self.block)
        self.rows, self.summed_rows = TILE // self.block, SUMMED_BYTES // x.element_size() // self.block
        self.tiles = (self.blocks * triton.cdiv(self.m, self.rows),)
        summed = triton.cdiv(self.m, self.summed_rows)
        wanted = max(1, min(PROGRAMS * multiprocessors(x.device) // self.blocks, MOST_SHARES, summed))
        self.share = triton.cdiv(summed, wanted) * self.summed_rows
        self.shares = triton.cdiv(self.m, self.share)
        self.unit = UNIT if self.c % UNIT == 0 else 1
        self.units = self.c // self.unit

    @property
    def constants(self) -> dict[str, int]:
        return {"UNIT": self.unit, "BR": self.rows, "BC": self.block}

    @property
    def summing(self) -> dict[str, int]:
        return {
            **{"UNIT": self.unit, "BR": self.summed_rows, "BC": self.block},
            **{"STAGES": STAGES, "num_warps": SUMMING_WARPS},
        }

    @property
    def merging(self) -> dict[str, int]:
        return {"SHARES": triton.next_power_of_2(self.shares), "UNIT": self.unit, "BC": MERGED_CHANNELS}


def _forward(
    x: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor | None, running_variance: Tensor | None,
    batches: Tensor | None, momentum: float, eps: float, activation: str,
) -> tuple[Tensor, ...]:  # fmt: skip
    by, y = Grid(x), torch.empty_like(x)
    mean, variance = (weight.new_empty(by.c, dtype=torch.float32) for _ in range(2))
    parts = mean.new_empty(by.shares, 3, by.c)
    launch_kernel(batch_moments_kernel, (by.blocks, by.shares), x, parts, by.m, by.units, by.share, **by.summing)
    tracked = running_mean is not None
    launch_kernel(
        merge_batch_moments_kernel, (triton.cdiv(by.c, MERGED_CHANNELS),), parts, mean, variance,
        *((running_mean, running_variance, batches) if tracked else (mean, mean, mean)),
        by.m, by.units, by.share, by.shares, momentum, TRACKED=tracked, **by.merging,
    )  # fmt: skip
    launch_kernel(
        normalize_batch_kernel, by.tiles, x, y, mean, variance, weight, bias, by.m, by.units, eps,
        ACTIVATION=activation, **by.constants,
    )  # fmt: skip
    return y, mean, variance


def _backward(
    x: Tensor, g: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor, eps: float,
    activation: str,
) -> tuple[Tensor, ...]:  # fmt: skip
    by, dx = Grid(x), torch.empty_like(x)
    dweight, dbias = torch.empty_like(weight), torch.empty_like(bias)
    parts = mean.new_empty(by.shares, 2, by.c)
    given = x, g, mean, variance, weight, bias
    launch_kernel(
        batch_gradient_sums_kernel, (by.blocks, by.shares), *given, parts, by.m, by.units, by.share, eps,
        ACTIVATION=activation, **by.summing,
    )  # fmt: skip
    launch_kernel(
        merge_batch_gradients_kernel, (triton.cdiv(by.c, MERGED_CHANNELS),), parts, dweight, dbias, by.units, by.shares,
        **by.merging,
    )  # fmt: skip
    launch_kernel(
        batch_gradient_kernel, by.tiles, *given, dweight, dbias, dx, by.m, by.units, eps,
        ACTIVATION=activation, **by.constants,
    )  # fmt: skip
    return dx, dweight, dbias


def _inference(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, eps: float, activation: str
) -> tuple[Tensor, ...]:
    by, y = Grid(x), torch.empty_like(x)
    launch_kernel(
        normalize_batch_kernel, by.tiles, x, y, mean, variance, weight, bias, by.m, by.units, eps,
        ACTIVATION=activation, **by.constants,
    )  # fmt: skip
    return (y,)


_planned_forward, _planned_backward, _planned_inference = Planned(_forward), Planned(_backward), Planned(_inference)


def forward_eager(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running: tuple[Tensor, Tensor, Tensor] | None,
    momentum: float,
    eps: float,
    activation: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The activated norm of a batch, and its mean and biased variance, (c,), for the backward pass.

    Args:
        x: Map (b, c, h, w) whose channels are contiguous, with more than one row.
        weight: Float32 scale of each channel, (c,).
        bias: Float32 shift of each channel, (c,).
        running: Mean, variance and number of batches, updated in place; None updates nothing.
        momentum: Share of this batch in the running mean and variance.
        eps: Added to the variance.
        activation: What follows the norm.
    """
    tensors = (x, weight, bias, *(running or (None,) * 3))
    y, mean, variance = _planned_forward(tensors, momentum, eps, activation)
    return y, mean, variance


def backward_eager(
    x: Tensor,
    g: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    activation: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients in x, weight and bias, for a gradient g with contiguous channels and the type of x."""
    dx, dweight, dbias = _planned_backward((x, g, mean, variance, weight, bias), eps, activation)
    return dx, dweight, dbias


def inference_eager(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, eps: float, activation: str
) -> Tensor:
    """The activated norm by given statistics, which are float32 and (c,)."""
    return _planned_inference((x, weight, bias, mean, variance), eps, activation)[0]
