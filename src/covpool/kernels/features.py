"""Kernels that turn features into centered, scaled operands, and the gradient of a triangle into a direction."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from covpool.kernels.plan import launch_kernel
from covpool.kernels.precision import Mode
from covpool.kernels.tiles import (
    store_operand,
    store_symmetric,
    triangle_offsets,
    upper_tile,
)

# fmt: off

CHANNEL_BLOCK = 64
POSITION_BLOCK = 64
MOMENT_CHANNELS = 16  # few channels with many positions: each pass over the positions waits for memory
MOST_POSITIONS = 1024  # up to this many, a program loads all positions once and holds them
MOMENT_POSITIONS = 256  # positions at a time where there are more
DIRECTION_TILE = 64  # small, because the kernel only waits for memory
SHARES = 16  # a vector is split into this many shares to sum its squares
SHARE_BLOCK = 4096  # entries of a share at a time
TINY = torch.finfo(torch.float32).tiny  # a smaller trace counts as zero


@triton.jit
def load_positions(x, w, image, start, channels, n, c, stride_n, stride_c, WEIGHTED: tl.constexpr, BN: tl.constexpr):
    """A block of features (zero outside), the mask of the entries inside, and the weights of the positions."""
    rows = start + tl.arange(0, BN)
    inside = (rows[:, None] < n) & (channels[None, :] < c)
    tile = tl.load(x + rows[:, None].to(tl.int64) * stride_n + channels[None, :].to(tl.int64) * stride_c,
                   mask=inside, other=0.0).to(tl.float32)
    if WEIGHTED:
        weights = tl.load(w + image * n + rows, mask=rows < n, other=0.0)[:, None]
    else:
        weights = 1.0 / n
    return tile, inside, weights


@triton.jit
def deviation(tile, average, rest):
    """Features minus their two-part mean. A difference that equal features have by rounding alone becomes zero."""
    left = tile - average[None, :] - rest[None, :]
    return tl.where(tl.abs(left) <= 1e-6 * tl.abs(rest)[None, :], 0.0, left)


@triton.jit
def reciprocal_root(value, tiny):
    """value^(-1/2), zero for a value below `tiny`."""
    zero = value < tiny
    return tl.where(zero, 0.0, 1.0 / tl.sqrt(tl.where(zero, 1.0, value)))


@triton.jit
def moments_kernel(x, w, mean, squares, kt, n, c, stride_b, stride_n, stride_c, rows_kt, columns_kt, tiny, k_scale,
                   CENTERED: tl.constexpr, WEIGHTED: tl.constexpr, WHOLE: tl.constexpr, WRITE_KT: tl.constexpr,
                   BN: tl.constexpr, BC: tl.constexpr, PARTS: tl.constexpr):
    """Compute the two-part weighted mean and the variance of each channel; unless CENTERED, zero and the mean square.

    The second part is the mean of the features minus the first part: what rounding took from the first. Means that are
    large compared with the deviations therefore cost no accuracy. WHOLE: all positions are loaded once and held.
    WRITE_KT, only with WHOLE: also store the whitened K^T, see `center_kernel`.
    """
    image = tl.program_id(0).to(tl.int64)
    channels = tl.program_id(1) * BC + tl.arange(0, BC)
    x += image * stride_b
    tile, inside, weights = load_positions(x, w, image, 0, channels, n, c, stride_n, stride_c, WEIGHTED, BN)
    average = tl.zeros((BC,), tl.float32)
    rest = average
    if CENTERED:
        total = tile * weights
        if not WHOLE:
            for start in range(BN, n, BN):
                more, _, its = load_positions(x, w, image, start, channels, n, c, stride_n, stride_c, WEIGHTED, BN)
                total += more * its
        average = tl.sum(total, 0)
        total = tl.where(inside, tile - average[None, :], 0.0) * weights
        if not WHOLE:
            for start in range(BN, n, BN):
                more, where, its = load_positions(x, w, image, start, channels, n, c, stride_n, stride_c, WEIGHTED, BN)
                total += tl.where(where, more - average[None, :], 0.0) * its
        rest = tl.sum(total, 0)
    tile = tl.where(inside, deviation(tile, average, rest), 0.0)
    square = tile * tile * weights
    if not WHOLE:
        for start in range(BN, n, BN):
            more, where, its = load_positions(x, w, image, start, channels, n, c, stride_n, stride_c, WEIGHTED, BN)
            more = tl.where(where, deviation(more, average, rest), 0.0)
            square += more * more * its
    mean += image * (2 * c) + channels
    tl.store(mean, average, mask=channels < c)
    tl.store(mean + c, rest, mask=channels < c)
    variance = tl.sum(square, 0)
    tl.store(squares + image * c + channels, variance, mask=channels < c)
    if WRITE_KT:
        tile = tile * tl.sqrt(weights) * (k_scale * reciprocal_root(variance, tiny))[None, :]
        rows = tl.arange(0, BN)
        part = rows_kt.to(tl.int64) * columns_kt
        pointers = kt + image * part * PARTS + channels[:, None].to(tl.int64) * columns_kt + rows[None, :]
        room = (channels[:, None] < rows_kt) & (rows[None, :] < columns_kt)
        store_operand(pointers, tl.trans(tile), part, room, PARTS)


@triton.jit
def trace_of(squares, image, c, CHANNELS: tl.constexpr):
    """The trace of the covariance: the sum of the variances of all channels."""
    index = tl.arange(0, CHANNELS)
    return tl.sum(tl.load(squares + image * c + index, mask=index < c, other=0.0), 0)


@triton.jit
def center_kernel(x, w, mean, squares, k, kt, trace, scales, n, c, stride_b, stride_n, stride_c,
                  rows_k, columns_k, rows_kt, columns_kt, tiny, root_n, k_scale, factor,
                  WEIGHTED: tl.constexpr, COMPENSATED: tl.constexpr, WHITENED: tl.constexpr,
                  WRITE_K: tl.constexpr, WRITE_KT: tl.constexpr,
                  CHANNELS: tl.constexpr, BN: tl.constexpr, BC: tl.constexpr, PARTS: tl.constexpr):
    """Store k_scale K, K = sqrt(w_i / t) (x_i - mean) with t the trace, as (n, c), (c, n) or both, zero-padded.

    WHITENED: every channel is divided by its own standard deviation instead of sqrt(t).
    Also store t, and the scale of the result: factor sqrt(t), or factor without post-compensation.
    """
    image = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * BN + tl.arange(0, BN)
    channels = tl.program_id(2) * BC + tl.arange(0, BC)
    inside = (rows[:, None] < n) & (channels[None, :] < c)
    t = trace_of(squares, image, c, CHANNELS)
    if WHITENED:
        variances = tl.load(squares + image * c + channels, mask=channels < c, other=0.0)
        scale = (k_scale * reciprocal_root(variances, tiny))[None, :]
    else:
        scale = k_scale * reciprocal_root(t, tiny)
    if (tl.program_id(1) == 0) & (tl.program_id(2) == 0):
        tl.store(trace + image, t)
        tl.store(scales + image, tl.sqrt(t) * factor if COMPENSATED else t * 0.0 + factor)
    tile = tl.load(x + image * stride_b + rows[:, None].to(tl.int64) * stride_n
                   + channels[None, :].to(tl.int64) * stride_c, mask=inside, other=0.0).to(tl.float32)
    mean += image * (2 * c) + channels
    average = tl.load(mean, mask=channels < c, other=0.0)
    tile = deviation(tile, average, tl.load(mean + c, mask=channels < c, other=0.0))
    if WEIGHTED:
        tile = tile * tl.sqrt(tl.load(w + image * n + rows, mask=rows < n, other=0.0))[:, None] * scale
    else:
        tile = tile * (scale / root_n)
    tile = tl.where(inside, tile, 0.0)
    if WRITE_K:
        room = (rows[:, None] < rows_k) & (channels[None, :] < columns_k)
        part = rows_k.to(tl.int64) * columns_k
        pointers = k + image * part * PARTS + rows[:, None].to(tl.int64) * columns_k + channels[None, :]
        store_operand(pointers, tile, part, room, PARTS)
    if WRITE_KT:
        room = (channels[:, None] < rows_kt) & (rows[None, :] < columns_kt)
        part = rows_kt.to(tl.int64) * columns_kt
        pointers = kt + image * part * PARTS + channels[:, None].to(tl.int64) * columns_kt + rows[None, :]
        store_operand(pointers, tl.trans(tile), part, room, PARTS)


@triton.jit
def direction_kernel(g, squares, norms, h, counters, c, g_stride, scale,
                     SHARES: tl.constexpr, SIZE: tl.constexpr, T: tl.constexpr, PARTS: tl.constexpr):
    """Store h = scale H, where H is the normalized symmetric direction of the gradient g of an upper triangle.

    Also store the norm of the gradient, and clear the chain's counters.
    """
    matrix = tl.program_id(1).to(tl.int64)
    i, j = upper_tile(tl.program_id(0), SIZE // T)
    offsets, inside = triangle_offsets(i, j, c, T)
    value = tl.load(g + matrix * g_stride + offsets, mask=inside, other=0.0)
    rows = i * T + tl.arange(0, T)
    columns = j * T + tl.arange(0, T)
    if i == j:  # the lower half of a diagonal tile is the transpose of the upper half
        value = tl.where(rows[:, None] == columns[None, :], value, value * 0.5)
        value = value + tl.trans(tl.where(rows[:, None] == columns[None, :], 0.0, value))
    else:
        value = value * 0.5
    norm = tl.sqrt(tl.sum(tl.load(squares + matrix * SHARES + tl.arange(0, SHARES)), 0)).to(tl.float32)
    if tl.program_id(0) == 0:
        tl.store(counters + matrix, 0)
        tl.store(norms + matrix, norm)
    value = value * tl.where(norm == 0.0, 0.0, 1.0 / tl.where(norm == 0.0, 1.0, norm))
    store_symmetric(h + matrix * (SIZE * SIZE * PARTS), i, j, value * scale, SIZE, PARTS, T)


@triton.jit
def squares_kernel(g, squares, size, g_stride, SHARES: tl.constexpr, BLOCK: tl.constexpr):
    """Sum the squares of a share of a vector in float64, because the squares of small entries underflow in float32."""
    vector = tl.program_id(0).to(tl.int64)
    share = tl.program_id(1)
    total = tl.zeros((BLOCK,), tl.float64)
    for start in range(share * BLOCK, size, SHARES * BLOCK):
        index = start + tl.arange(0, BLOCK)
        value = tl.load(g + vector * g_stride + index, mask=index < size, other=0.0).to(tl.float64)
        total += value * value
    tl.store(squares + vector * SHARES + share, tl.sum(total, 0))


# fmt: on
def squared_lengths(g: Tensor) -> Tensor:  # (b, size) -> (b, SHARES)
    """The squared lengths of contiguous gradients of triangles, each as the sums of its shares."""
    squares = g.new_empty(g.shape[0], SHARES, dtype=torch.float64)
    launch_kernel(
        squares_kernel, tuple(squares.shape), g, squares, g.shape[1], g.stride(0),
        SHARES=SHARES, BLOCK=SHARE_BLOCK, num_warps=8,
    )  # fmt: skip
    return squares


class Features:
    """Features with their moments, from which centered and scaled operands are computed.

    Args:
        x: Features (b, n, c) with any strides.
        w: Contiguous weights (b, n) that sum to one, or None.
        m: How operands are stored.
        moments: The mean and the squares, if they are known.
    """

    def __init__(self, x: Tensor, w: Tensor | None, m: Mode, moments: tuple[Tensor, Tensor] | None = None) -> None:
        self.x, self.w, self.mode = x, w, m
        self.b, self.n, self.c = x.shape
        if moments is None:
            self._moments(x.new_empty(0, dtype=m.storage), (0, 0), centered=True)
        else:
            self.mean, self.squares = moments

    @staticmethod
    def whitened(
        x: Tensor, w: Tensor | None, m: Mode, shape: tuple[int, int], centered: bool = True
    ) -> tuple["Features", Tensor]:
        """Features, and K^T (b, parts, c, n) padded to `shape`, each channel divided by its standard deviation.

        Args:
            x, w, m: See the class.
            shape: Numbers of channels and of positions with padding.
            centered: False leaves the mean at zero.
        """
        f = Features(x, w, m, (x, x))
        kt = x.new_empty(f.b, m.parts, *shape, dtype=m.storage)
        if f.n <= MOST_POSITIONS:
            f._moments(kt, shape, centered)
        else:
            f._moments(kt.new_empty(0), (0, 0), centered)
            _, kt, _, _ = f.operands(None, shape, whitened=True)
        return f, kt

    def _moments(self, kt: Tensor, shape: tuple[int, int], centered: bool) -> None:
        """Compute the mean and the squares, and fill in the whitened K^T if it has a shape."""
        self.mean = self.x.new_empty(self.b, 2, self.c, dtype=torch.float32)
        self.squares = self.x.new_empty(self.b, self.c, dtype=torch.float32)
        whole = self.n <= MOST_POSITIONS
        held = triton.next_power_of_2(max(self.n, shape[1])) if whole else MOMENT_POSITIONS
        launch_kernel(
            moments_kernel, (self.b, triton.cdiv(max(self.c, shape[0]), MOMENT_CHANNELS)),
            self.x, self.weights, self.mean, self.squares, kt, self.n, self.c, *self.x.stride(), *shape,
            TINY, self.mode.k_scale, CENTERED=centered, WEIGHTED=self.w is not None, WHOLE=whole,
            WRITE_KT=shape[0] > 0, BN=held, BC=MOMENT_CHANNELS, PARTS=self.mode.parts,
        )  # fmt: skip

    @property
    def weights(self) -> Tensor:
        """The weights for a kernel, which ignores them if there are none."""
        return self.x if self.w is None else self.w

    def operands(
        self, k_shape: tuple[int, int] | None, kt_shape: tuple[int, int] | None,
        factor: float = 1.0, compensated: bool = True, whitened: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
        """K (b, parts, n, c) and K^T (b, parts, c, n), padded to the given shapes; traces; scales of the result."""
        empty = self.x.new_empty(0, dtype=self.mode.storage)
        parts = self.mode.parts
        k = empty if k_shape is None else empty.new_empty(self.b, parts, *k_shape)
        kt = empty if kt_shape is None else empty.new_empty(self.b, parts, *kt_shape)
        trace, scales = self.mean.new_empty(self.b), self.mean.new_empty(self.b)
        rows = max((k_shape or (0, 0))[0], (kt_shape or (0, 0))[1])
        columns = max((k_shape or (0, 0))[1], (kt_shape or (0, 0))[0])
        launch_kernel(
            center_kernel, (self.b, triton.cdiv(rows, POSITION_BLOCK), triton.cdiv(columns, CHANNEL_BLOCK)),
            self.x, self.weights, self.mean, self.squares, k, kt, trace, scales, self.n, self.c, *self.x.stride(),
            *(k_shape or (0, 0)), *(kt_shape or (0, 0)), TINY, math.sqrt(self.n), self.mode.k_scale, factor,
            WEIGHTED=self.w is not None, COMPENSATED=compensated, WHITENED=whitened,
            WRITE_K=k_shape is not None, WRITE_KT=kt_shape is not None,
            CHANNELS=triton.next_power_of_2(self.c), BN=POSITION_BLOCK, BC=CHANNEL_BLOCK, PARTS=parts,
        )  # fmt: skip
        return k, kt, trace, scales
