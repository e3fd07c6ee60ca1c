"""Crop regions of many images of different sizes and resize them to one, on the device.

PIL resizes with a filter (a triangle or a cubic) that widens as the image shrinks. Along one side this is a linear map
with one row of weights per output pixel; cropping and flipping only select its rows. So each color is x = W_y P W_x^T:
two matrix products, or one kernel on a GPU that runs it.
"""

from typing import Literal

import torch
from torch import Tensor

from covpool.data.pipeline._boxes import Boxes
from covpool.kernels import cut_regions, largest_tile

STEP = 32  # pixels; the common size of images is rounded up to a multiple of it, so that few shapes occur


def cut(
    pixels: Tensor,  # (all pixels,) int32: red, green, blue and an unused byte
    starts: Tensor,  # (b,) position of the first pixel of each image
    sizes: Tensor,  # (b, 2) height, width
    boxes: Boxes,  # b regions
    *,
    size: int,
    extent: tuple[int, int],  # no height or width is larger
    interpolation: Literal["bilinear", "bicubic"] = "bilinear",
) -> Tensor:  # (b, 3, size, size), float32 in [0, 255]
    """Crop and resize the regions to one size as PIL does, without its rounding to whole numbers."""
    if largest_tile(pixels.device) and pixels.is_cuda:
        return cut_regions(pixels, starts, sizes, boxes, size=size, cubic=interpolation == "bicubic")
    return cut_by_products(pixels, starts, sizes, boxes, size=size, extent=extent, interpolation=interpolation)


def cut_by_products(
    pixels: Tensor,
    starts: Tensor,
    sizes: Tensor,
    boxes: Boxes,
    *,
    size: int,
    extent: tuple[int, int],
    interpolation: Literal["bilinear", "bicubic"] = "bilinear",
) -> Tensor:
    """`cut` by torch's operations."""
    height, width = rounded(extent[0]), rounded(extent[1])
    h, w = sizes.unbind(1)
    with torch.autocast(pixels.device.type, enabled=False):
        down = side_weights(boxes.top, boxes.height, h, boxes.whole, (size, height), interpolation)
        right = side_weights(boxes.left, boxes.width, w, boxes.whole, (size, width), interpolation)
        right = torch.where(boxes.flipped[:, None, None], right.flip(1), right)
        rows = _gather_images(pixels, starts, sizes, (height, width)).flatten(1, 2)  # (b, 3 height, width)
        narrow = torch.bmm(rows, right.mT).clamp_(0, 255)  # a cubic overshoots, and PIL clips
        del rows  # the largest tensor of a group
        return torch.matmul(down[:, None], narrow.unflatten(1, (3, height))).clamp_(0, 255)


def rounded(side: int) -> int:
    """A side length, rounded up to the common size at which images are read.

    >>> rounded(64), rounded(65)
    (64, 96)
    """
    return -(-side // STEP) * STEP


def _gather_images(
    pixels: Tensor,  # (all pixels,)
    starts: Tensor,  # (b,)
    sizes: Tensor,  # (b, 2)
    shape: tuple[int, int],
) -> Tensor:  # (b, 3, height, width), float32
    """The images padded to one size by repeating the last row and column; the padding has zero weight."""
    h, w = sizes[..., None].unbind(1)
    y = torch.arange(shape[0], device=pixels.device).clamp(max=h - 1)  # (b, height)
    x = torch.arange(shape[1], device=pixels.device).clamp(max=w - 1)
    index = (starts[:, None] + y * w)[:, :, None] + x[:, None]
    images = pixels[index].view(torch.uint8).unflatten(2, (-1, 4))[..., :3]
    return images.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)


def side_weights(
    start: Tensor,  # (b,) of the box along this side
    length: Tensor,  # (b,)
    limit: Tensor,  # (b,) side of the image
    whole: Tensor,  # (b,) bool: the filter may read across the border of the box, within the image
    shape: tuple[int, int],  # (size, extent)
    interpolation: Literal["bilinear", "bicubic"],
) -> Tensor:  # (b, size, extent), float32
    """Weights W of one side: output i is the sum over j of W[i, j] p[j]. Rows sum to 1, or to 0 outside the image."""
    start, length, limit, whole = (column[:, None] for column in (start, length, limit, whole))
    size, extent = shape
    output = torch.arange(0.5, size, dtype=start.dtype, device=start.device)  # centers of pixels
    position = torch.arange(0.5, extent, dtype=start.dtype, device=start.device)
    scale = length / size
    center = torch.addcmul(start, output, scale)  # (b, size)
    distance = (position - center[..., None]).div_(scale.clamp(min=1)[..., None])
    low = start.masked_fill(whole, 0)
    high = torch.where(whole, limit, torch.minimum(start + length, limit))
    inside = (position >= low) & (position < high)  # (b, extent)
    weights = _KERNELS[interpolation](distance.abs_()).mul_(inside[:, None])
    total = weights.sum(-1, keepdim=True)
    return weights.div_(total.masked_fill_(total == 0, 1))


def _triangle(t: Tensor) -> Tensor:
    return (1 - t).clamp(min=0)


def _cubic(t: Tensor) -> Tensor:
    """Keys' kernel with a = -1/2, PIL's."""
    near = (1.5 * t - 2.5) * t * t + 1
    far = ((-0.5 * t + 2.5) * t - 4) * t + 2
    return torch.where(t < 1, near, torch.where(t < 2, far, 0))


_KERNELS = {"bilinear": _triangle, "bicubic": _cubic}
