"""Regions cut out of many pictures of different sizes and resized to one, as two small matrix products on the device.

PIL resizes with a filter (a triangle, or a cubic) that widens where the picture shrinks. Along one side this is a
linear map with one row of weights per output pixel; cropping and mirroring only choose its rows. So each colour is
x = W_y P W_x^T.
"""

from typing import Literal

import torch
from torch import Tensor

from covpool.data.boxes import Boxes

STEP = 32  # pixels to which the common size of a batch is rounded up, so that few shapes occur


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
    height, width = (-(-side // STEP) * STEP for side in extent)
    h, w = sizes.unbind(1)
    y = torch.arange(height, device=pixels.device).clamp(max=h[:, None] - 1)  # (b, height)
    x = torch.arange(width, device=pixels.device).clamp(max=w[:, None] - 1)
    index = (starts[:, None] + y * w[:, None])[:, :, None] + x[:, None]
    picture = pixels[index].view(torch.uint8).view(*index.shape, 4)[..., :3]  # (b, height, width, 3)
    with torch.autocast(pixels.device.type, enabled=False):
        down = side_weights(boxes.top, boxes.height, h, boxes.whole, (size, height), interpolation)
        right = side_weights(boxes.left, boxes.width, w, boxes.whole, (size, width), interpolation)
        right = torch.where(boxes.mirrored[:, None, None], right.flip(1), right)
        rows = picture.permute(0, 3, 1, 2).flatten(1, 2).float()  # (b, 3 height, width)
        narrow = torch.bmm(rows, right.mT).clamp(0, 255).unflatten(1, (3, height))  # a cubic overshoots: PIL clips
        both = torch.bmm(down, narrow.transpose(1, 2).flatten(2)).clamp(0, 255)  # (b, size, 3 size)
        return both.unflatten(2, (3, size)).transpose(1, 2).contiguous()


def side_weights(
    start: Tensor,  # (b,) of the box along this side
    length: Tensor,  # (b,)
    limit: Tensor,  # (b,) of the picture
    whole: Tensor,  # (b,) bool: the filter may reach over the box's border, as far as the picture goes
    shape: tuple[int, int],  # (size, extent)
    interpolation: Literal["bilinear", "bicubic"],
) -> Tensor:  # (b, size, extent), float32
    """The weights W of one side: output i is the sum over inputs j of W[i, j] p[j]; rows sum to 1, or to 0 outside."""
    size, extent = shape
    scale = length / size
    center = start[:, None] + (torch.arange(size, device=start.device) + 0.5) * scale[:, None]
    position = torch.arange(extent, device=start.device) + 0.5
    distance = (position - center[..., None]) / scale.clamp(min=1)[:, None, None]
    weights = _KERNELS[interpolation](distance.abs())
    low = torch.where(whole, torch.zeros_like(start), start)
    high = torch.where(whole, limit, torch.minimum(start + length, limit))
    weights = weights * ((position >= low[:, None]) & (position < high[:, None]))[:, None]
    total = weights.sum(-1, keepdim=True)
    return (weights / torch.where(total == 0, 1, total)).float()


def _triangle(t: Tensor) -> Tensor:
    return (1 - t).clamp(min=0)


def _cubic(t: Tensor) -> Tensor:
    """Keys' kernel with a = -1/2, PIL's."""
    near = (1.5 * t - 2.5) * t * t + 1
    far = ((-0.5 * t + 2.5) * t - 4) * t + 2
    return torch.where(t < 1, near, torch.where(t < 2, far, 0))


_KERNELS = {"bilinear": _triangle, "bicubic": _cubic}
