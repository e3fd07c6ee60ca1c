"""Crop and resize regions of many images of different sizes in one launch, as PIL resizes."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from covpool.kernels.plan import launch_kernel

# fmt: off

ROWS = 8  # of a tile of the output
COLUMNS = 64


@triton.jit
def filter_weight(distance, CUBIC: tl.constexpr):
    """PIL's filters: a triangle, or Keys' cubic with a = -1/2."""
    if CUBIC:
        near = (1.5 * distance - 2.5) * distance * distance + 1
        far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
        value = tl.where(distance < 1, near, tl.where(distance < 2, far, 0.0))
    else:
        value = tl.where(distance < 1, 1 - distance, 0.0)
    return value


@triton.jit
def tap_weight(tap, center, stretch, low, high, CUBIC: tl.constexpr):
    """The weight of a pixel before normalization; zero outside of [low, high)."""
    position = tap + 0.5
    weight = filter_weight(tl.abs(position - center) / stretch, CUBIC)
    return tl.where((position >= low) & (position < high), weight, 0.0)


@triton.jit
def side(start, length, limit, whole, output, size, CUBIC: tl.constexpr):
    """Along one side: the center of each output pixel, its first tap, and what is common to all pixels of the side."""
    scale = length / size
    center = start + (output + 0.5) * scale
    stretch = tl.maximum(scale, 1.0)
    reach = stretch * 2 if CUBIC else stretch
    first = tl.ceil(center - reach - 0.5)
    taps = tl.floor(2 * reach).to(tl.int32) + 2
    low = tl.where(whole, 0.0, tl.maximum(start, 0.0))
    high = tl.where(whole, limit, tl.minimum(start + length, limit))
    total = center * 0
    for k in range(taps):
        total += tap_weight(first + k, center, stretch, low, high, CUBIC)
    return center, first, stretch, low, high, taps, tl.where(total == 0, 1.0, total)


@triton.jit
def pixel_index(tap, limit):
    """The index of a tap, or of the nearest pixel of the image for one outside, whose weight is zero."""
    return tl.minimum(tl.maximum(tap, 0.0), limit - 1).to(tl.int64)


@triton.jit
def cut_kernel(pixels, starts, sizes, top, left, height, width, flipped, whole, out, size,
               CUBIC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    image = tl.program_id(1).to(tl.int64)
    across = tl.cdiv(size, COLUMNS)
    rows = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    h = tl.load(sizes + 2 * image).to(tl.float32)
    w = tl.load(sizes + 2 * image + 1).to(tl.float32)
    over = tl.load(whole + image) != 0
    source = tl.where(tl.load(flipped + image) != 0, size - 1 - columns, columns)
    center_y, first_y, stretch_y, low_y, high_y, taps_y, total_y = side(
        tl.load(top + image), tl.load(height + image), h, over, rows, size, CUBIC)
    center_x, first_x, stretch_x, low_x, high_x, taps_x, total_x = side(
        tl.load(left + image), tl.load(width + image), w, over, source, size, CUBIC)
    pixels += tl.load(starts + image)
    red = tl.zeros((ROWS, COLUMNS), tl.float32)
    green = red
    blue = red
    for k in range(taps_y):
        down = (tap_weight(first_y + k, center_y, stretch_y, low_y, high_y, CUBIC) / total_y)[:, None]
        line = pixels + pixel_index(first_y + k, h)[:, None] * w.to(tl.int64)
        r = tl.zeros((ROWS, COLUMNS), tl.float32)
        g = r
        b = r
        for i in range(taps_x):
            right = (tap_weight(first_x + i, center_x, stretch_x, low_x, high_x, CUBIC) / total_x)[None, :]
            color = tl.load(line + pixel_index(first_x + i, w)[None, :])
            r += right * (color & 255).to(tl.float32)
            g += right * ((color >> 8) & 255).to(tl.float32)
            b += right * ((color >> 16) & 255).to(tl.float32)
        red += down * clipped(r)
        green += down * clipped(g)
        blue += down * clipped(b)
    area = tl.cast(size, tl.int64) * size  # a size of 1 is a constant, which has no `to`
    target = out + image * 3 * area + rows[:, None] * size + columns[None, :]
    inside = (rows[:, None] < size) & (columns[None, :] < size)
    tl.store(target, clipped(red), mask=inside)
    tl.store(target + area, clipped(green), mask=inside)
    tl.store(target + 2 * area, clipped(blue), mask=inside)


@triton.jit
def clipped(value):
    """A cubic overshoots, and PIL clips after each side."""
    return tl.minimum(tl.maximum(value, 0.0), 255.0)


# fmt: on
def cut_regions(
    pixels: Tensor,  # (all pixels,) int32: red, green, blue and an unused byte
    starts: Tensor,  # (b,) int64
    sizes: Tensor,  # (b, 2) int64, height and width
    boxes: tuple[Tensor, ...],  # top, left, height, width, float32; flipped, whole, bool; each (b,)
    *,
    size: int,
    cubic: bool,
) -> Tensor:  # (b, 3, size, size), float32 in [0, 255]
    """Crop and resize a region of each image to one size, without PIL's rounding to whole numbers.

    Args:
        pixels: The pixels of all images, row by row.
        starts: Position of the first pixel of each image.
        sizes: Height and width of each image.
        boxes: Top, left, height and width of each region; whether it is flipped; whether the filter may read across
            the border of the region, within the image.
        size: Height and width of the output.
        cubic: Resize by PIL's cubic filter instead of its triangle.
    """
    out = torch.empty(len(starts), 3, size, size, device=pixels.device)
    if len(starts):
        tiles = triton.cdiv(size, ROWS) * triton.cdiv(size, COLUMNS)
        with torch.cuda.device_of(pixels):  # does nothing for a CPU tensor
            launch_kernel(
                cut_kernel, (tiles, len(starts)), *(t.contiguous() for t in (pixels, starts, sizes, *boxes)), out, size,
                CUBIC=cubic, ROWS=ROWS, COLUMNS=COLUMNS,
            )  # fmt: skip
    return out
