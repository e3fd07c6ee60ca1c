"""Regions cut out of many pictures of different sizes and resized to one, as two small matrix products on the device.

PIL resizes with a filter (a triangle, or a cubic) that widens where the picture shrinks. Along one side this is a
linear map with one row of weights per output pixel; cropping and mirroring only choose its rows. So each colour is
x = W_y P W_x^T.
"""

from typing import Literal

import torch
from torch import Tensor

from covpool.data.pipeline._boxes import Boxes

STEP = 32  # pixels to which the common size of pictures is rounded up, so that few shapes occur


def cut(
    pixels: Tensor,  # (all pixels,) int32: red, green, blue and an unused byte
    starts: Tensor,  # (b,) of the pictures' first pixels
    sizes: Tensor,  # (b, 2) height, width
    boxes: Boxes,  # of b regions
    *,
    size: int,
    extent: tuple[int, int],  # at least every height and width
    interpolation: Literal["bilinear", "bicubic"] = "bilinear",
) -> Tensor:  # (b, 3, size, size), float32 in [0, 255]
    """The regions of the pictures at one size: crop and resize as PIL does, without its rounding to whole numbers."""
    height, width = rounded(extent[0]), rounded(extent[1])
    h, w = sizes.unbind(1)
    with torch.autocast(pixels.device.type, enabled=False):
        down = side_weights(boxes.top, boxes.height, h, boxes.whole, (size, height), interpolation)
        right = side_weights(boxes.left, boxes.width, w, boxes.whole, (size, width), interpolation)
        right = torch.where(boxes.mirrored[:, None, None], right.flip(1), right)
        rows = _gathered(pixels, starts, sizes, (height, width)).flatten(1, 2)  # (b, 3 height, width)
        narrow = torch.bmm(rows, right.mT).clamp_(0, 255)  # a cubic overshoots: PIL clips
        del rows  # the larger part of what a group costs
        return torch.matmul(down[:, None], narrow.unflatten(1, (3, height))).clamp_(0, 255)


def rounded(side: int) -> int:
    """A side of the common size at which pictures are read.

    >>> rounded(64), rounded(65)
    (64, 96)
    """
    return -(-side // STEP) * STEP


def _gathered(
    pixels: Tensor,  # (all pixels,)
    starts: Tensor,  # (b,)
    sizes: Tensor,  # (b, 2)
    shape: tuple[int, int],
) -> Tensor:  # (b, 3, height, width), float32
    """The pictures at one size: beyond their own the last row and column come again, with which nothing is done."""
    h, w = sizes[..., None].unbind(1)
    y = torch.arange(shape[0], device=pixels.device).clamp(max=h - 1)  # (b, height)
    x = torch.arange(shape[1], device=pixels.device).clamp(max=w - 1)
    index = (starts[:, None] + y * w)[:, :, None] + x[:, None]
    picture = pixels[index].view(torch.uint8).unflatten(2, (-1, 4))[..., :3]
    return picture.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)


def side_weights(
    start: Tensor,  # (b,) of the box along this side
    length: Tensor,  # (b,)
    limit: Tensor,  # (b,) of the picture
    whole: Tensor,  # (b,) bool: the filter may reach over the box's border, as far as the picture goes
    shape: tuple[int, int],  # (size, extent)
    interpolation: Literal["bilinear", "bicubic"],
) -> Tensor:  # (b, size, extent), float32
    """The weights W of one side: output i is the sum over inputs j of W[i, j] p[j]; rows sum to 1, or to 0 outside."""
    start, length, limit, whole = (column[:, None] for column in (start, length, limit, whole))
    size, extent = shape
    output = torch.arange(0.5, size, dtype=start.dtype, device=start.device)  # middles of pixels
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
