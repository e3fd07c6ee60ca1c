"""Batches from images on the device, cropped and augmented there without a Python loop over images."""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from covpool._cores import one_thread
from covpool.data._images import UNKNOWN
from covpool.data._settings import ResolvedAugment
from covpool.data.pipeline._batch import Batch
from covpool.data.pipeline._boxes import Boxes, Draws, draw, eval_boxes, train_boxes
from covpool.data.pipeline._color import ColorOperations
from covpool.data.pipeline._cut import cut, rounded
from covpool.data.pipeline._device_images import DeviceImages
from covpool.data.pipeline._samples import PADDING
from covpool.data.pipeline._transforms import Crops, check_ten_crops

Tensors = TypeVar("Tensors", Boxes, Draws)
# Pixels processed at once. The device handles a batch of small images faster than the host launches its operations, so
# several batches share them. A pixel takes up to about 50 temporary bytes (8 for its address, 12 for each copy of its
# colors, and the filter weights), so a group takes less than 0.9 GB, plus 0.2 left by the group before it.
GROUP_PIXELS = 2**24


class Group(NamedTuple):
    """Consecutive batches that are made together."""

    first: int  # number of the first batch
    stop: int  # number of the batch after the last
    images: int
    height: int  # common size of the images
    width: int

    def joined(self, other: "Group") -> "Group":
        """Join this group with the next one."""
        height, width = max(self.height, other.height), max(self.width, other.width)
        return Group(self.first, other.stop, self.images + other.images, height, width)


class CutPlan(NamedTuple):
    """The regions of an epoch or of a group, on the device."""

    starts: Tensor  # (m,) position of the first pixel of each image
    sizes: Tensor  # (m, 2)
    boxes: Boxes
    draws: Draws | None  # None in evaluation

    def split(self, counts: list[int]) -> Iterator["CutPlan"]:
        """Split into plans for `counts` regions, with one operation per tensor."""
        draws = repeat(None) if self.draws is None else _split(self.draws, counts)
        return map(CutPlan, self.starts.split(counts), self.sizes.split(counts), _split(self.boxes, counts), draws)


class DeviceSource:
    """Batches from images that are kept on the device.

    The random numbers and regions of a whole epoch are sent to the device together, and several batches are cropped,
    augmented and normalized together. So a batch needs few kernels and no synchronization.

    Args:
        images: Images, resized as the recipe says.
        augment: How an image becomes an input.
        seed: Seed of the run in training; None = test crops, nothing random.
        crops: Number of test crops, 1 or 10.
    """

    def __init__(
        self, images: DeviceImages, augment: ResolvedAugment, *, seed: int | None = None, crops: Crops = 1
    ) -> None:
        self._images, self._augment, self._seed, self._crops = images, augment, seed, crops
        if crops == 10:
            check_ten_crops(augment.size, *images.sizes[images.replacement].amin(0).tolist())
        self._color = ColorOperations(augment, images.device)

    def batches(self, rows: Iterable[Tensor], epoch: int, start: int = 0) -> Iterator[Batch]:
        """One batch per row of image indices, from row `start` on.

        The groups do not depend on `start`, since the shapes of a matrix product can change its last bits.
        """
        order = list(rows)
        if not order:
            return
        lengths = list(map(len, order))
        with one_thread():
            index = torch.cat(order)
            shown = self._images.replacement[index.clamp(min=0)]  # any image serves as padding
            broken = self._images.broken[index.clamp(min=0)] & (index != PADDING)
            y = self._images.targets[shown]
            if self._seed is None:
                y = torch.where(broken | (index == PADDING), UNKNOWN, y)
            groups = self._groups(lengths, self._images.sizes[shown])
            plan = self._plan(index, shown, epoch)
        labels = list(zip(y.to(self._images.device).split(lengths), order, broken.split(lengths), strict=True))
        parts = plan.split([group.images * self._crops for group in groups])
        for group, part in zip(groups, parts, strict=True):
            if group.stop > start:
                made = self._make(part, (group.height, group.width)).split(lengths[group.first : group.stop])
                skipped = max(0, start - group.first)
                for x, of_x in zip(made[skipped:], labels[group.first + skipped : group.stop], strict=True):
                    yield Batch(x, *of_x)

    def _groups(self, lengths: list[int], sizes: Tensor) -> list[Group]:
        """Group batches with these numbers and sizes of images, as many together as GROUP_PIXELS allows."""
        extents = np.maximum.reduceat(sizes.numpy(), np.cumsum([0, *lengths[:-1]])).tolist()
        groups: list[Group] = []
        for number, (length, extent) in enumerate(zip(lengths, extents, strict=True)):
            groups.append(Group(number, number + 1, length, *map(rounded, extent)))
            if number and self._pixels(both := groups[-2].joined(groups[-1])) <= GROUP_PIXELS:
                groups[-2:] = [both]
        return groups

    def _pixels(self, group: Group) -> int:
        return group.images * self._crops * max(group.height * group.width, self._augment.size**2)

    def _plan(self, index: Tensor, shown: Tensor, epoch: int) -> CutPlan:
        """The regions and random numbers of all batches."""
        images, sizes = self._images, self._images.sizes[shown]
        draws = None
        if self._seed is None:
            boxes = eval_boxes(self._augment.size, sizes, self._crops)
        else:
            draws = draw(len(images.sizes), self._seed, epoch).of(index)
            boxes = train_boxes(self._augment, sizes, draws)
            draws = _to_device(draws, images.device)
        on_device = shown.repeat_interleave(self._crops).to(images.device)
        return CutPlan(
            images.starts[on_device], images.device_sizes[on_device], _to_device(boxes, images.device), draws
        )

    def _make(self, plan: CutPlan, extent: tuple[int, int]) -> Tensor:
        """The inputs of a group: (b, 3, s, s), or (b, 10, 3, s, s)."""
        x = cut(
            self._images.pixels,
            *(plan.starts, plan.sizes, plan.boxes),
            size=self._augment.size,
            extent=extent,
            interpolation=self._augment.interpolation,
        ).div_(255)
        x = self._color.normalize(x) if plan.draws is None else self._color.augment(x, plan.draws)
        return x.unflatten(0, (-1, self._crops)) if self._crops > 1 else x


def _to_device(tensors: Tensors, device: torch.device) -> Tensors:
    """Copy to the device, floating-point numbers as float32."""
    kinds = (torch.float32 if tensor.is_floating_point() else tensor.dtype for tensor in tensors)
    return type(tensors)(*(tensor.to(device, kind) for tensor, kind in zip(tensors, kinds, strict=True)))


def _split(tensors: Tensors, counts: list[int]) -> Iterator[Tensors]:
    return map(type(tensors), *(tensor.split(counts) for tensor in tensors))
