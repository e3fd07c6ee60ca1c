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
WARPS = 4  # of a program that computes a square
AT_ONCE = 9 * 2  # bytes of a channel's taps that are loaded at once; more would not fit into the registers
SUMMED = 32  # most positions of a line that a program sums at a time for the gradient of the filters
LEAST_SUMMED = 16
STAGES = 1  # such pieces that are loaded at a time
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
def taps_kernel(weight, taps, units, TAPS: tl.constexpr, UNIT: tl.constexpr, BC: tl.constexpr):
    """Store filters (c, TAPS) as (TAPS, c), so that a program loads those of several channels at once."""
    c = units * UNIT
    channels = tl.program_id(1) * BC + tl.arange(0, BC)
    tap = tl.program_id(0)
    there = channels < c
    tl.store(taps + tap * c + channels, tl.load(weight + channels * TAPS + tap, mask=there), mask=there)


@triton.jit
def depthwise_kernel(x, taps, y, h, w, rows, columns, down, across, units,
                     STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, PADDING_H: tl.constexpr, PADDING_W: tl.constexpr,
                     DILATION_H: tl.constexpr, DILATION_W: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
                     TRANSPOSED: tl.constexpr, LINES: tl.constexpr, UNIT: tl.constexpr, SIDE: tl.constexpr,
                     BC: tl.constexpr):
    """y = the filtered x, or TRANSPOSED the gradient y of the input from that of the output, x.

    x has h x w positions and y has rows x columns of them, in down x across squares. LINES of the filter are loaded at
    once.
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
    known = channels < c
    total = tl.zeros((SIDE * SIDE, BC), tl.float32)
    for i in tl.range(KH, loop_unroll_factor=LINES):
        r, row_there = source_of(row, i, h, STRIDE_H, PADDING_H, DILATION_H, TRANSPOSED)
        for j in tl.static_range(KW):
            q, column_there = source_of(column, j, w, STRIDE_W, PADDING_W, DILATION_W, TRANSPOSED)
            there = (row_there & column_there)[:, None] & known[None, :]
            tile = tl.load(x + ((r * w + q) * c)[:, None] + channels[None, :], mask=there, other=0.0).to(tl.float32)
            tap = tl.load(taps + (i * KW + j) * c + channels, mask=known, other=0.0).to(tl.float32)
            total += tile * tap[None, :]
    y += image * rows * columns * c
    inside = ((row < rows) & (column < columns))[:, None] & known[None, :]
    tl.store(y + ((row * columns + column) * c)[:, None] + channels[None, :], total.to(y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["steps", "share"])
def filter_gradient_kernel(x, g, parts, h, w, rows, columns, steps, share, units,
                           STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, PADDING_H: tl.constexpr,
                           PADDING_W: tl.constexpr, DILATION_H: tl.constexpr, DILATION_W: tl.constexpr,
                           KH: tl.constexpr, KW: tl.constexpr, TAPS: tl.constexpr,
                           UNIT: tl.constexpr, P: tl.constexpr, BC: tl.constexpr, STAGES: tl.constexpr):
    """The gradient of one row of the filters from a share of the steps, (shares, KH KW, c).

    A step is a piece of P positions of a line of the output. TAPS is the next power of two of KW.
    """
    c = units * UNIT
    i = tl.program_id(0) % KH
    channels = tl.program_id(0) // KH * BC + tl.arange(0, BC)
    known = (channels < c)[None, None, :]
    tap = tl.arange(0, TAPS)
    pieces = tl.cdiv(columns, P)
    first = tl.program_id(1) * share
    total = tl.zeros((P, TAPS, BC), tl.float32)
    for step in tl.range(first, tl.minimum(first + share, steps), num_stages=STAGES):
        line = step // pieces
        image = (line // rows).to(tl.int64)
        r, row_there = source_of(line % rows, i, h, STRIDE_H, PADDING_H, DILATION_H, False)
        column = step % pieces * P + tl.arange(0, P)
        width = tl.where(row_there, w, 0)  # outside of the map, no column is there
        q, there = source_of(column[:, None], tap[None, :], width, STRIDE_W, PADDING_W, DILATION_W, False)
        there = there & (column < columns)[:, None] & (tap < KW)[None, :]
        tile = tl.load(x + (image * h + r) * w * c + (q * c)[:, :, None] + channels[None, None, :],
                       mask=there[:, :, None] & known, other=0.0)
        slope = tl.load(g + line.to(tl.int64) * columns * c + (column * c)[:, None, None] + channels[None, None, :],
                        mask=(column < columns)[:, None, None] & known, other=0.0)
        total += tile.to(tl.float32) * slope.to(tl.float32)
    part = parts + (tl.program_id(1).to(tl.int64) * (KH * KW) + i * KW) * c
    tl.store(part + (tap * c)[:, None] + channels[None, :], tl.sum(total, 0),
             mask=(tap < KW)[:, None] & (channels < c)[None, :])


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


def _channel_block(c: int, taps: int) -> int:
    """Channels of a tile; fewer for filters with many taps, which are all loaded at once."""
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


def _filter(x: Tensor, taps: Tensor, y: Tensor, *, transposed: bool, geometry: dict[str, int]) -> None:
    """Write the filtered x, or the gradient of the input, to y."""
    b, c, rows, columns = y.shape
    down, across = triton.cdiv(rows, SIDE), triton.cdiv(columns, SIDE)
    (units, unit), block = _units(c), _channel_block(c, len(taps))
    lines = geometry["KH"] if unit > 1 and len(taps) * x.element_size() <= AT_ONCE else 1
    launch_kernel(
        depthwise_kernel, (b * down * across * triton.cdiv(c, block),), x, taps, y, *x.shape[2:], rows, columns,
        down, across, units, TRANSPOSED=transposed, LINES=lines, UNIT=unit, SIDE=SIDE, BC=block, num_warps=WARPS,
        **geometry,
    )  # fmt: skip


def _forward(x: Tensor, weight: Tensor, size: Pair, stride: Pair, padding: Pair, dilation: Pair) -> tuple[Tensor, ...]:
    y = torch.empty((*x.shape[:2], *size), dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    c, count = x.shape[1], weight.shape[2] * weight.shape[3]
    taps, (units, unit) = weight.new_empty(count, c), _units(c)
    launch_kernel(
        taps_kernel, (count, triton.cdiv(c, MERGED_CHANNELS)), weight, taps, units,
        TAPS=count, UNIT=unit, BC=MERGED_CHANNELS,
    )  # fmt: skip
    _filter(x, taps, y, transposed=False, geometry=_geometry(weight, stride, padding, dilation))
    return y, taps


def _input_gradient(
    g: Tensor, weight: Tensor, taps: Tensor, size: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> tuple[Tensor, ...]:
    dx = torch.empty((*g.shape[:2], *size), dtype=g.dtype, device=g.device, memory_format=torch.channels_last)
    _filter(g, taps, dx, transposed=True, geometry=_geometry(weight, stride, padding, dilation))
    return (dx,)


def _filter_gradient(
    x: Tensor, g: Tensor, weight: Tensor, stride: Pair, padding: Pair, dilation: Pair
) -> tuple[Tensor, ...]:
    (_, c, h, w), (b, _, rows, columns), (kh, kw) = x.shape, g.shape, weight.shape[2:]
    (units, unit), block = _units(c), _channel_block(c, kh * kw)
    piece = min(SUMMED, max(LEAST_SUMMED, triton.next_power_of_2(columns)))
    programs = kh * triton.cdiv(c, block)
    steps = b * rows * triton.cdiv(columns, piece)
    wanted = max(1, min(PROGRAMS * multiprocessors(x.device) // programs, MOST_SHARES, steps))
    share = triton.cdiv(steps, wanted)
    shares = triton.cdiv(steps, share)
    parts = torch.empty((shares, kh * kw, c), dtype=torch.float32, device=x.device)
    dweight = torch.empty_like(weight)  # contiguous, with the strides of the weight, which DDP compares
    launch_kernel(
        filter_gradient_kernel, (programs, shares), x, g, parts, h, w, rows, columns, steps, share, units,
        **_geometry(weight, stride, padding, dilation),
        TAPS=triton.next_power_of_2(kw), UNIT=unit, P=piece, BC=block, STAGES=STAGES,
    )  # fmt: skip
    launch_kernel(
        merge_filter_gradients_kernel, (kh * kw, triton.cdiv(c, MERGED_CHANNELS)), parts, dweight, units, shares,
        TAPS=kh * kw, SHARES=triton.next_power_of_2(shares), UNIT=unit, BC=MERGED_CHANNELS,
    )  # fmt: skip
    return (dweight,)


_planned_forward, _planned_input_gradient = Planned(_forward), Planned(_input_gradient)
_planned_filter_gradient = Planned(_filter_gradient)


def forward_eager(
    x: Tensor, weight: Tensor, size: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> tuple[Tensor, Tensor]:
    """The filtered map (b, c, *size), and the filters as (kh kw, c) for the backward pass.

    Args:
        x: Map (b, c, h, w) whose channels are contiguous, with less than 2^31 numbers per image.
        weight: A filter for each channel, (c, 1, kh, kw), contiguous.
        size: Height and width of the result.
        stride, padding, dilation: Those of the convolution, down and across.
    """
    y, taps = _planned_forward((x, weight), size, stride, padding, dilation)
    return y, taps


def input_gradient_eager(
    g: Tensor, weight: Tensor, taps: Tensor, size: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Tensor:
    """The gradient in the map, whose height and width are `size`, for a gradient g with contiguous channels."""
    return _planned_input_gradient((g, weight, taps), size, stride, padding, dilation)[0]


def filter_gradient_eager(x: Tensor, g: Tensor, weight: Tensor, stride: Pair, padding: Pair, dilation: Pair) -> Tensor:
    """The gradient in the filters, in their type."""
    return _planned_filter_gradient((x, g, weight), stride, padding, dilation)[0]
