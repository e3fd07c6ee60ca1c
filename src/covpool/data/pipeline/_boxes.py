"""The region of each image that becomes the input: torchvision's crops, drawn for a whole epoch at once."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from covpool.data._settings import ResolvedAugment
from covpool.data.pipeline._samples import seed_of
from covpool.data.pipeline._transforms import Crops

ATTEMPTS = 10  # to draw a random-resized crop that fits into the image, as in torchvision


class Boxes(NamedTuple):
    """Regions of images in pixels; each field is (m,). Pixels outside the image are black."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor
    flipped: Tensor  # bool
    whole: Tensor  # bool: the image is resized before it is cropped, so the filter reads across the border of the box


class Draws(NamedTuple):
    """The random numbers of every image in an epoch: uniform in [0, 1), except for the normal noise."""

    areas: Tensor  # (n, ATTEMPTS)
    aspects: Tensor  # (n, ATTEMPTS)
    place: Tensor  # (n, 2)
    scale: Tensor  # (n,)
    flip: Tensor  # (n,)
    color: Tensor  # (n, 3)
    noise: Tensor  # (n, 3)

    def of(self, index: Tensor) -> "Draws":
        """Select the numbers of the images with these indices."""
        return Draws(*(numbers[index] for numbers in self))


def draw(count: int, seed: int, epoch: int) -> Draws:
    """All random numbers of an epoch; those of an image depend on seed, epoch and its index alone."""
    generator = torch.Generator().manual_seed(seed_of(seed, epoch, count))
    uniform = torch.rand(count, 2 * ATTEMPTS + 7, generator=generator, dtype=torch.float64)
    noise = torch.randn(count, 3, generator=generator)
    areas, aspects, place, scale, flip, color = uniform.split((ATTEMPTS, ATTEMPTS, 2, 1, 1, 3), dim=1)
    return Draws(areas, aspects, place, scale[:, 0], flip[:, 0], color, noise)


def train_boxes(augment: ResolvedAugment, sizes: Tensor, draws: Draws) -> Boxes:
    """Training crops of images with sizes (n, 2), with the same distribution as those of `train_transform`."""
    h, w = sizes.double().unbind(1)
    flipped = (draws.flip < 0.5) & augment.flip
    whole = torch.full_like(flipped, augment.crop != "random_resized")
    if augment.crop == "random_resized":
        height, width = _random_area(augment, h, w, draws)
        drawn = [(draws.place * (torch.stack([h - height, w - width], 1) + 1)).floor()[:, i] for i in (0, 1)]
        fits = height > 0
        fallback = _central_area(augment, h, w)
        height, width = torch.where(fits, height, fallback[0]), torch.where(fits, width, fallback[1])
        top = torch.where(fits, drawn[0], ((h - height) / 2).floor())
        left = torch.where(fits, drawn[1], ((w - width) / 2).floor())
        return Boxes(top, left, height, width, flipped, whole)
    new_h, new_w = _scaled(augment, h, w, draws.scale)
    if augment.crop == "center":
        top, left = _central(new_h, augment.size), _central(new_w, augment.size)
    else:
        top, left = (_random(side, augment.size, draws.place[:, i]) for i, side in enumerate((new_h, new_w)))
    side = torch.full_like(h, augment.size)
    return Boxes(top * h / new_h, left * w / new_w, side * h / new_h, side * w / new_w, flipped, whole)


def eval_boxes(size: int, sizes: Tensor, crops: Crops) -> Boxes:
    """Test crops: one per image, or ten in a row in the order of `ten_crops`."""
    h, w = sizes.double().unbind(1)
    top, left = _central(h, size), _central(w, size)
    flipped = torch.zeros(crops, dtype=torch.bool)
    if crops == 10:
        zero, bottom, right = torch.zeros_like(h), h - size, w - size
        top = torch.stack(2 * [zero, zero, bottom, bottom, top], 1).flatten()
        lefts = [zero, right, zero, right, left]
        left = torch.stack(lefts + [right - one for one in lefts], 1).flatten()
        flipped[5:] = True
    side = torch.full_like(top, size)
    flipped = flipped.repeat(len(h))
    return Boxes(top, left, side, side, flipped, torch.ones_like(flipped))


def _random_area(augment: ResolvedAugment, h: Tensor, w: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
    """Height and width of the first attempt that fits; zero where none does."""
    low, high = augment.scale
    area = (h * w)[:, None] * (low + (high - low) * draws.areas)
    log_low, log_high = (math.log(ratio) for ratio in augment.ratio)
    aspect = torch.exp(log_low + (log_high - log_low) * draws.aspects)
    width, height = (area * aspect).sqrt().round(), (area / aspect).sqrt().round()
    fits = (width > 0) & (width <= w[:, None]) & (height > 0) & (height <= h[:, None])
    first = fits.int().argmax(1, keepdim=True)
    return tuple((side * fits).gather(1, first)[:, 0] for side in (height, width))  # type: ignore[return-value]


def _central_area(augment: ResolvedAugment, h: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The largest central area with an allowed aspect ratio."""
    low, high = min(augment.ratio), max(augment.ratio)
    height = torch.where(w / h < low, (w / low).round(), h)
    width = torch.where(w / h > high, (h * high).round(), w)
    return height, width


def _scaled(augment: ResolvedAugment, h: Tensor, w: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """The size after scale jitter, which draws the shorter side from [low, high]."""
    if not augment.scales:
        return h, w
    low, high = augment.scales
    side = low + (uniform * (high - low + 1)).floor()
    factor = side / torch.minimum(h, w)
    return (h * factor).floor().maximum(side), (w * factor).floor().maximum(side)


def _central(side: Tensor, size: int) -> Tensor:
    """Start of a central crop; a smaller image gets the odd black row at its end."""
    room = side - size
    return torch.where(room >= 0, (room / 2).round(), -(-room / 2).floor())


def _random(side: Tensor, size: int, uniform: Tensor) -> Tensor:
    """Start of a random crop; a smaller image is placed at random inside its black border."""
    room = side - size
    return torch.where(room >= 0, (uniform * (room + 1)).floor(), room + (uniform * (1 - room)).floor())
