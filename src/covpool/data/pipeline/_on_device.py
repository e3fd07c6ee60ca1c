"""Batches of pictures that lie on the device and are cut and varied there: nothing is done per picture in Python."""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from covpool._cores import one_thread
from covpool._errors import CovpoolError
from covpool.data._images import UNKNOWN
from covpool.data._settings import Augment
from covpool.data.pipeline._batch import Batch
from covpool.data.pipeline._boxes import Boxes, Draws, draw, eval_boxes, train_boxes
from covpool.data.pipeline._color import Color
from covpool.data.pipeline._cut import cut, rounded
from covpool.data.pipeline._decoded import DecodedImages
from covpool.data.pipeline._samples import PADDING
from covpool.data.pipeline._transforms import Crops, check_ten_crops

Tensors = TypeVar("Tensors", Boxes, Draws)
BYTES = 4  # of a pixel on the device: with a fourth, unused one a pixel is gathered as one number
# Read or made at once. Small pictures take the device less time than the host needs to name a hundred operations, which
# several batches therefore share. A pixel costs up to about 50 bytes on the way (8 for its address, 12 for each copy of
# its colours, the filters' weights): a group less than 0.9 GB, besides the 0.2 that the one before it leaves.
GROUP_PIXELS = 2**24


class DevicePictures:
    """All pictures of a part on the device."""

    def __init__(self, decoded: DecodedImages, device: torch.device) -> None:
        self.device, self.reasons = device, decoded.reasons
        self.sizes = decoded.sizes  # stays on the CPU: the common size of a batch is found without asking the device
        self.targets = torch.tensor(decoded.targets)
        self.broken = torch.tensor([index in decoded.reasons for index in range(len(decoded))])
        self.stand_in = next_readable(self.broken)
        self.pixels = _packed(decoded.pieces, device)
        self.starts, self.sent_sizes = decoded.starts.to(device), decoded.sizes.to(device)


class Group(NamedTuple):
    """Consecutive batches that are made at once."""

    first: int  # batch
    stop: int
    pictures: int
    height: int  # common to the pictures
    width: int

    def joined(self, other: "Group") -> "Group":
        """With the one that follows."""
        height, width = max(self.height, other.height), max(self.width, other.width)
        return Group(self.first, other.stop, self.pictures + other.pictures, height, width)


class Plan(NamedTuple):
    """The regions of all batches of an epoch, or of a group, on the device."""

    starts: Tensor  # (m,) of their pictures' pixels
    sizes: Tensor  # (m, 2)
    boxes: Boxes
    draws: Draws | None  # of training

    def split(self, counts: list[int]) -> Iterator["Plan"]:
        """One after the other: a single operation for each of the tensors."""
        draws = repeat(None) if self.draws is None else _split(self.draws, counts)
        return map(Plan, self.starts.split(counts), self.sizes.split(counts), _split(self.boxes, counts), draws)


class DeviceSource:
    """Batches out of pictures that are kept on the device.

    The random numbers of an epoch are drawn at once and its regions sent at once, and several batches are cut, varied
    and normalised at once, so that a batch costs few kernels and no waiting for the device.

    Args:
        pictures: resized as the recipe says.
        augment: from picture to input.
        seed: of the run, in training; None = the test's crops and nothing random.
        crops: of the test, 1 or 10.
    """

    def __init__(
        self, pictures: DevicePictures, augment: Augment, *, seed: int | None = None, crops: Crops = 1
    ) -> None:
        self._pictures, self._augment, self._seed, self._crops = pictures, augment, seed, crops
        if crops == 10:
            check_ten_crops(augment.size, *pictures.sizes[pictures.stand_in].amin(0).tolist())
        self._color = Color(augment, pictures.device)

    def batches(self, rows: Iterable[Tensor], epoch: int, start: int = 0) -> Iterator[Batch]:
        """One batch per row of picture numbers, from row `start` on.

        The groups are those of all rows whatever `start` is: the shapes of a product may change its last bits.
        """
        order = list(rows)
        if not order:
            return
        lengths = list(map(len, order))
        with one_thread():
            index = torch.cat(order)
            shown = self._pictures.stand_in[index.clamp(min=0)]  # where padding stands, any picture will do
            broken = self._pictures.broken[index.clamp(min=0)] & (index != PADDING)
            y = self._pictures.targets[shown]
            if self._seed is None:
                y = torch.where(broken | (index == PADDING), UNKNOWN, y)
            groups = self._groups(lengths, self._pictures.sizes[shown])
            plan = self._plan(index, shown, epoch)
        labels = list(zip(y.to(self._pictures.device).split(lengths), order, broken.split(lengths), strict=True))
        parts = plan.split([group.pictures * self._crops for group in groups])
        for group, part in zip(groups, parts, strict=True):
            if group.stop > start:
                made = self._made(part, (group.height, group.width)).split(lengths[group.first : group.stop])
                skipped = max(0, start - group.first)
                for x, of_x in zip(made[skipped:], labels[group.first + skipped : group.stop], strict=True):
                    yield Batch(x, *of_x)

    def _groups(self, lengths: list[int], sizes: Tensor) -> list[Group]:
        """Batches of so many pictures of these sizes, as many together as GROUP_PIXELS allows."""
        extents = np.maximum.reduceat(sizes.numpy(), np.cumsum([0, *lengths[:-1]])).tolist()
        groups: list[Group] = []
        for number, (length, extent) in enumerate(zip(lengths, extents, strict=True)):
            groups.append(Group(number, number + 1, length, *map(rounded, extent)))
            if number and self._pixels(both := groups[-2].joined(groups[-1])) <= GROUP_PIXELS:
                groups[-2:] = [both]
        return groups

    def _pixels(self, group: Group) -> int:
        return group.pictures * self._crops * max(group.height * group.width, self._augment.size**2)

    def _plan(self, index: Tensor, shown: Tensor, epoch: int) -> Plan:
        """Regions and random numbers of all batches."""
        pictures, sizes = self._pictures, self._pictures.sizes[shown]
        draws = None
        if self._seed is None:
            boxes = eval_boxes(self._augment.size, sizes, self._crops)
        else:
            draws = draw(len(pictures.sizes), self._seed, epoch).of(index)
            boxes = train_boxes(self._augment, sizes, draws)
            draws = _sent(draws, pictures.device)
        sent = shown.repeat_interleave(self._crops).to(pictures.device)
        return Plan(pictures.starts[sent], pictures.sent_sizes[sent], _sent(boxes, pictures.device), draws)

    def _made(self, plan: Plan, extent: tuple[int, int]) -> Tensor:
        """The inputs of a group: (b, 3, s, s), or (b, 10, 3, s, s)."""
        x = cut(
            self._pictures.pixels,
            *(plan.starts, plan.sizes, plan.boxes),
            size=self._augment.size,
            extent=extent,
            interpolation=self._augment.interpolation,
        ).div_(255)
        x = self._color.normalised(x) if plan.draws is None else self._color.varied(x, plan.draws)
        return x.unflatten(0, (-1, self._crops)) if self._crops > 1 else x


def next_readable(broken: Tensor) -> Tensor:
    """For every picture itself, or the next one that is not broken, beginning anew after the last.

    >>> next_readable(torch.tensor([False, True, True, False, True])).tolist()
    [0, 3, 3, 3, 0]
    """
    count = len(broken)
    if bool(broken.all()):
        raise CovpoolError(f"none of the {count} pictures can be read")
    numbers = torch.arange(2 * count).masked_fill(broken.repeat(2), 2 * count)
    return numbers.flip(0).cummin(0).values.flip(0)[:count] % count


def _packed(pieces: list[Tensor], device: torch.device) -> Tensor:
    """All pixels on the device, one int32 each."""
    count = sum(map(len, pieces))
    _check_room(count * BYTES, device)
    pixels = torch.empty(count, dtype=torch.int32, device=device)
    start = 0
    for piece in pieces:
        pixels[start : start + len(piece)] = pad(piece.to(device), (0, 1)).view(torch.int32)[:, 0]
        start += len(piece)
    return pixels


def _check_room(needed: int, device: torch.device) -> None:
    if device.type != "cuda":
        return
    free, total = torch.cuda.mem_get_info(device)
    if needed > free / 2:  # the network wants room too
        raise CovpoolError(
            f'data.cache = "gpu" needs {needed / 2**30:.1f} GiB for the pictures; {free / 2**30:.1f} of '
            f'{total / 2**30:.1f} GiB are free on {device}: use a smaller augment.resize, or cache = "ram"'
        )


def _sent(tensors: Tensors, device: torch.device) -> Tensors:
    """On the device; real numbers in float32."""
    kinds = (torch.float32 if tensor.is_floating_point() else tensor.dtype for tensor in tensors)
    return type(tensors)(*(tensor.to(device, kind) for tensor, kind in zip(tensors, kinds, strict=True)))


def _split(tensors: Tensors, counts: list[int]) -> Iterator[Tensors]:
    return map(type(tensors), *(tensor.split(counts) for tensor in tensors))
