"""Batches of pictures that lie on the device and are cut and varied there: nothing is done per picture in Python."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from covpool.data.batch import Batch
from covpool.data.boxes import Boxes, Draws, draw, test_boxes, train_boxes
from covpool.data.color import Color
from covpool.data.cut import cut
from covpool.data.images import UNKNOWN
from covpool.data.memory import DecodedImages
from covpool.data.options import Augment
from covpool.data.samples import PADDING
from covpool.data.transforms import Crops, check_ten_crops

Tensors = TypeVar("Tensors", Boxes, Draws)
BYTES = 4  # of a pixel on the device: with a fourth, unused one a pixel is gathered as one number


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


class DeviceSource:
    """Batches out of pictures that are kept on the device.

    The random numbers of an epoch are drawn at once and its regions sent at once, so that a batch costs a few kernels
    and no waiting for the device.

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

    def batches(self, rows: Iterable[Tensor], epoch: int) -> Iterator[Batch]:
        """One batch per row of picture numbers."""
        order = list(rows)
        if not order:
            return
        index = torch.cat(order)
        shown = self._pictures.stand_in[index.clamp(min=0)]  # where padding stands, any picture will do
        sizes = self._pictures.sizes[shown]
        y, boxes, draws = self._plan(index, shown, epoch)
        sent_y, sent = y.to(self._pictures.device), shown.to(self._pictures.device)
        ends = torch.tensor([0, *map(len, order)]).cumsum(0).tolist()
        for start, stop in pairwise(ends):
            extent = sizes[start:stop].amax(0).tolist()
            of_crops = slice(start * self._crops, stop * self._crops)
            x = self._cut(sent[start:stop], _part(boxes, of_crops), extent)
            x = self._color.normalised(x) if draws is None else self._color.varied(x, _part(draws, of_crops))
            x = x.unflatten(0, (-1, self._crops)) if self._crops > 1 else x
            numbers = index[start:stop]
            broken = self._pictures.broken[numbers.clamp(min=0)] & (numbers != PADDING)
            yield Batch(x, sent_y[start:stop], numbers, broken)

    def _plan(self, index: Tensor, shown: Tensor, epoch: int) -> tuple[Tensor, Boxes, Draws | None]:
        """Classes, regions and random numbers of all batches."""
        sizes, y = self._pictures.sizes[shown], self._pictures.targets[shown]
        if self._seed is not None:
            draws = draw(len(self._pictures.sizes), self._seed, epoch).of(index)
            boxes = train_boxes(self._augment, sizes, draws)
            return y, _sent(boxes, self._pictures.device), _sent(draws, self._pictures.device)
        y = torch.where(self._pictures.broken[index] | (index == PADDING), UNKNOWN, y)
        return y, _sent(test_boxes(self._augment.size, sizes, self._crops), self._pictures.device), None

    def _cut(self, shown: Tensor, boxes: Boxes, extent: list[int]) -> Tensor:
        shown = shown.repeat_interleave(self._crops) if self._crops > 1 else shown
        x = cut(
            self._pictures.pixels,
            self._pictures.starts[shown],
            self._pictures.sent_sizes[shown],
            boxes,
            size=self._augment.size,
            extent=(extent[0], extent[1]),
            interpolation=self._augment.interpolation,
        )
        return x / 255


def next_readable(broken: Tensor) -> Tensor:
    """For every picture itself, or the next one that is not broken, beginning anew after the last.

    >>> next_readable(torch.tensor([False, True, True, False, True])).tolist()
    [0, 3, 3, 3, 0]
    """
    count = len(broken)
    if bool(broken.all()):
        raise ValueError(f"none of the {count} pictures can be read")
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
        raise ValueError(
            f'data.cache = "gpu" needs {needed / 2**30:.1f} GiB for the pictures; {free / 2**30:.1f} of '
            f'{total / 2**30:.1f} GiB are free on {device}: use a smaller augment.resize, or cache = "ram"'
        )


def _sent(tensors: Tensors, device: torch.device) -> Tensors:
    """On the device; real numbers in float32."""
    kinds = (torch.float32 if tensor.is_floating_point() else tensor.dtype for tensor in tensors)
    return type(tensors)(*(tensor.to(device, kind) for tensor, kind in zip(tensors, kinds, strict=True)))


def _part(tensors: Tensors, part: slice) -> Tensors:
    return type(tensors)(*(tensor[part] for tensor in tensors))
