"""Depthwise convolution, which filters each channel by itself, for maps whose channels are contiguous in memory.

cuDNN compiles a kernel for every shape of such a convolution when a process first meets it, which takes seconds for a
network; Triton keeps compiled kernels on disk. Filters of float32 are not rounded, and all sums are in float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from covpool.kernels.gpu import multiprocessors
from covpool.kernels.plan import Planned, launch_kernel

# fmt: off

SIDE = 8  # of the square of positions that a program computes
MOST_CHANNELS = 64  # of a tile: 128 bytes of half-precision numbers, which memory transfers at once
LEAST_CHANNELS = 16
UNIT = 8  # kernels get the channels as a multiple of it, so that the compiler knows it may load 16 bytes at once
SUMMED = 32  # positions that a program sums at a time for the gradient of the filters
PROGRAMS = 8  # per multiprocessor for that gradient, if there are enough positions
MOST_SHARES = 512  # of the positions; each is summed by programs of its own
MERGED_CHANNELS = 32  # of a program that merges the shares


@triton.jit
def source_of(target, tap, size, STRIDE: tl.constexpr, PADDING: tl.constexpr, DILATION: tl.constexpr,
              TRANSPOSED: tl.constexpr):
    """Along one side, the position that a tap reads for a target position, and whether there is one.

    TRANSPOSED: the target is a position of the input, and the tap reads the gradient of the output.
    """
    if TRANSPOSED:
        shifted = target + PADDING - tap * DILATION
        source = shifted // STRIDE
        there = (shifted >= 0) & (shifted % STRIDE == 0) & (source < size)
    else:
        source = target * STRIDE - PADDING + tap * DILATION
        there = (source >= 0) & (source < size)
    return source, there


@triton.jit
def depthwise_kernel(x, weight, y, h, w, rows, columns, down, across, units,
                     STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, PADDING_H: tl.constexpr, PADDING_W: tl.constexpr,
                     DILATION_H: tl.constexpr, DILATION_W: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
                     TRANSPOSED: tl.constexpr, UNIT: tl.constexpr, SIDE: tl.constexpr, BC: tl.constexpr):
    """y = the filtered x, or TRANSPOSED the gradient y of the input from that of the output, x.

    x has h x w positions and y has rows x columns of them, in down x across squares.
    """
    c = units * UNIT
    blocks = tl.cdiv(c, BC)
    program = tl.program_id(0)
    channels = program % blocks * BC + tl.arange(0, BC)
    square = program // blocks
    image = (square // (down * across)).to(tl.int64)
    place = tl.arange(0, SIDE * SIDE)
    row = square // across % down * SIDE + place // SIDE
    column = square % across * SIDE + place % SIDE
    x += image * h * w * c
    known = (channels < c)[None, :]
    total = tl.zeros((SIDE * SIDE, BC), tl.float32)
    for i in tl.static_range(KH):
        r, row_there = source_of(row, i, h, STRIDE_H, PADDING_H, DILATION_H, TRANSPOSED)
        for j in tl.static_range(KW):
            q, column_there = source_of(column, j, w, STRIDE_W, PADDING_W, DILATION_W, TRANSPOSED)
            there = (row_there & column_there)[:, None] & known
            tile = tl.load(x + ((r * w + q) * c)[:, None] + channels[None, :], mask=there, other=0.0).to(tl.float32)
            tap = tl.load(weight + channels * (KH * KW) + (i * KW + j), mask=channels < c, other=0.0).to(tl.float32)
            total += tile * tap[None, :]
    y += image * rows * columns * c
    inside = ((row < rows) & (column < columns))[:, None] & known
    tl.store(y + ((row * columns + column) * c)[:, None] + channels[None, :], total.to(y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["m", "share"])
def filter_gradient_kernel(x, g, parts, h, w, rows, columns, m, share, units,
                           STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, PADDING_H: tl.constexpr,
                           PADDING_W: tl.constexpr, DILATION_H: tl.constexpr, DILATION_W: tl.constexpr,
                           KH: tl.constexpr, KW: tl.constexpr, TAPS: tl.constexpr,
                           UNIT: tl.constexpr, P: tl.constexpr, BC: tl.constexpr):
    """The gradient of one row of the filters from a share of the m positions of the output, (shares, KH KW, c).

    TAPS is the next power of two of KW.
    """
    c = units * UNIT
    i = tl.program_id(0) % KH
    channels = tl.program_id(0) // KH * BC + tl.arange(0, BC)
    known = (channels < c)[None, None, :]
    taps = tl.arange(0, TAPS)
    first = tl.program_id(1) * share
    stop = tl.minimum(first + share, m)
    total = tl.zeros((P, TAPS, BC), tl.float32)
    for start in range(first, stop, P):
        place = start + tl.arange(0, P)
        image = (place // (rows * columns)).to(tl.int64)
        row = place // columns % rows
        column = place % columns
        r, row_there = source_of(row, i, h, STRIDE_H, PADDING_H, DILATION_H, False)
        q, column_there = source_of(column[:, None], taps[None, :], w, STRIDE_W, PADDING_W, DILATION_W, False)
        there = (row_there & (place < stop))[:, None] & column_there & (taps < KW)[None, :]
        source = (image * h + r)[:, None] * w + q
        tile = tl.load(x + (source * c)[:, :, None] + channels[None, None, :],
                       mask=there[:, :, None] & known, other=0.0)
        slope = tl.load(g + (place.to(tl.int64) * c)[:, None, None] + channels[None, None, :],
                        mask=(place < stop)[:, None, None] & known, other=0.0)
        total += tile.to(tl.float32) * slope.to(tl.float32)
    part = parts + (tl.program_id(1).to(tl.int64) * (KH * KW) + i * KW) * c
    tl.store(part + (taps * c)[:, None] + channels[None, :], tl.sum(total, 0),
             mask=(taps < KW)[:, None] & (channels < c)[None, :])


@triton.jit(do_not_specialize=["shares"])
def merge_filter_gradients_kernel(parts, dweight, units, shares,
                                  TAPS: tl.constexpr, SHARES: tl.constexpr, UNIT: tl.constexpr, BC: tl.constexpr):
    """The sum of all shares, (c, TAPS)."""
    c = units * UNIT
    tap = tl.program_id(0)
    channels = tl.program_id(1) * BC + tl.arange(0, BC)
    index = tl.arange(0, SHARES)
    offsets = (index.to(tl.int64) * TAPS + tap)[:, None] * c + channels[None, :]
    each = tl.load(parts + offsets, mask=(index < shares)[:, None] & (channels < c)[None, :], other=0.0)
    tl.store(dweight + channels * TAPS + tap, tl.sum(each, 0).to(dweight.dtype.element_ty), mask=channels < c)


# fmt: on
Pair = tuple[int, int]


def _channel_block(c: int, weight: Tensor) -> int:
    """Channels of a tile; fewer for large filters, whose taps are all loaded at once."""
    taps = weight.shape[2] * weight.shape[3]
    most = MOST_CHANNELS if taps <= 9 else MOST_CHANNELS // 2 if taps <= 25 else LEAST_CHANNELS
    return min(most, max(LEAST_CHANNELS, triton.next_power_of_2(c)))


def _units(c: int) -> tuple[int, int]:
    """The channels as a number of units, and the unit."""
    unit = UNIT if c % UNIT == 0 else 1
    return c // unit, unit


def _geometry(weight: Tensor, stride: Pair, padding: Pair, dilation: Pair) -> dict[str, int]:
    sides = {"STRIDE": stride, "PADDING": padding, "DILATION": dilation}
    each = {f"{name}_{side}": pair[k] for name, pair in sides.items() for k, side in enumerate("HW")}
    return each | {"KH": weight.shape[2], "KW": weight.shape[3]}


def _filter(x: Tensor, weight: Tensor, y: Tensor, *, transposed: bool, geometry: dict[str, int]) -> None:
    """Write the filtered x, or the gradient of the input, to y."""
    b, c, rows, columns = y.shape
    down, across = triton.cdiv(rows, SIDE), triton.cdiv(columns, SIDE)
    (units, unit), block = _units(c), _channel_block(c, weight)
    launch_kernel(
        depthwise_kernel, (b * down * across * triton.cdiv(c, block),), x, weight, y, *x.shape[2:], rows, columns,
        down, across, units, TRANSPOSED=transposed, UNIT=unit, SIDE=SIDE, BC=block, **geometry,
    )  # fmt: skip


def _forward(x: Tensor, weight: Tensor, size: Pair, stride: Pair, padding: Pair, dilation: Pair) -> tuple[Tensor, ...]:
    y = torch.empty((*x.shape[:2], *size), dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    _filter(x, weight, y, transposed=False, geometry=_geometry(weight, stride, padding, dilation))
    return (y,)


def _input_gradient(
    g: Tensor, weight: Tensor, size: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> tuple[Tensor, ...]:
    dx = torch.empty((*g.shape[:2], *size), dtype=g.dtype, device=g.device, memory_format=torch.channels_last)
    _filter(g, weight, dx, transposed=True, geometry=_geometry(weight, stride, padding, dilation))
    return (dx,)


def _filter_gradient(
    x: Tensor, g: Tensor, weight: Tensor, stride: Pair, padding: Pair, dilation: Pair
) -> tuple[Tensor, ...]:
    (_, c, h, w), (b, _, rows, columns), (kh, kw) = x.shape, g.shape, weight.shape[2:]
    (units, unit), block, m = _units(c), _channel_block(c, weight), b * rows * columns
    programs = kh * triton.cdiv(c, block)
    steps = triton.cdiv(m, SUMMED)
    wanted = max(1, min(PROGRAMS * multiprocessors(x.device) // programs, MOST_SHARES, steps))
    share = triton.cdiv(steps, wanted) * SUMMED
    shares = triton.cdiv(m, share)
    parts = torch.empty((shares, kh * kw, c), dtype=torch.float32, device=x.device)
    dweight = torch.empty_like(weight, memory_format=torch.contiguous_format)
    launch_kernel(
        filter_gradient_kernel, (programs, shares), x, g, parts, h, w, rows, columns, m, share, units,
        **_geometry(weight, stride, padding, dilation),
        TAPS=triton.next_power_of_2(kw), UNIT=unit, P=SUMMED, BC=block,
    )  # fmt: skip
    launch_kernel(
        merge_filter_gradients_kernel, (kh * kw, triton.cdiv(c, MERGED_CHANNELS)), parts, dweight, units, shares,
        TAPS=kh * kw, SHARES=triton.next_power_of_2(shares), UNIT=unit, BC=MERGED_CHANNELS,
    )  # fmt: skip
    return (dweight,)


_planned_forward, _planned_input_gradient = Planned(_forward), Planned(_input_gradient)
_planned_filter_gradient = Planned(_filter_gradient)


def forward_eager(x: Tensor, weight: Tensor, size: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Tensor:
    """The filtered map (b, c, *size).

    Args:
        x: Map (b, c, h, w) whose channels are contiguous, with less than 2^31 numbers per image.
        weight: A filter for each channel, (c, 1, kh, kw), contiguous.
        size: Height and width of the result.
        stride, padding, dilation: Those of the convolution, down and across.
    """
    return _planned_forward((x, weight), size, stride, padding, dilation)[0]


def input_gradient_eager(g: Tensor, weight: Tensor, size: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Tensor:
    """The gradient in the map, whose height and width are `size`, for a gradient g with contiguous channels."""
    return _planned_input_gradient((g, weight), size, stride, padding, dilation)[0]


def filter_gradient_eager(x: Tensor, g: Tensor, weight: Tensor, stride: Pair, padding: Pair, dilation: Pair) -> Tensor:
    """The gradient in the filters, in their type."""
    return _planned_filter_gradient((x, g, weight), stride, padding, dilation)[0]
