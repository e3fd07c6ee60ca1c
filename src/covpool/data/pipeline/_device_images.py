"""Decoded images in the memory of a device."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from covpool._errors import CovpoolError
from covpool.data.pipeline._decoded import DecodedImages

BYTES = 4  # per pixel on the device: with a fourth, unused byte, a pixel is gathered as one number


class DeviceImages:
    """All images of a set on the device."""

    def __init__(self, decoded: DecodedImages, device: torch.device) -> None:
        self.device, self.reasons = device, decoded.reasons
        self.sizes = decoded.sizes  # on the CPU, so that the common size of a batch is found without a synchronization
        self.targets = torch.tensor(decoded.targets)
        self.broken = torch.tensor([index in decoded.reasons for index in range(len(decoded))])
        self.replacement = next_readable(self.broken)
        self.pixels = _pack_pixels(decoded.blocks, device)
        self.starts, self.device_sizes = decoded.starts.to(device), decoded.sizes.to(device)


def next_readable(broken: Tensor) -> Tensor:
    """The index of every image, or of the next one that is not broken, starting over after the last.

    >>> next_readable(torch.tensor([False, True, True, False, True])).tolist()
    [0, 3, 3, 3, 0]
    """
    count = len(broken)
    if bool(broken.all()):
        raise CovpoolError(f"none of the {count} images can be read")
    numbers = torch.arange(2 * count).masked_fill(broken.repeat(2), 2 * count)
    return numbers.flip(0).cummin(0).values.flip(0)[:count] % count


def _pack_pixels(blocks: list[Tensor], device: torch.device) -> Tensor:
    """All pixels on the device, one int32 each."""
    count = sum(map(len, blocks))
    _check_memory(count * BYTES, device)
    pixels = torch.empty(count, dtype=torch.int32, device=device)
    start = 0
    for block in blocks:
        pixels[start : start + len(block)] = pad(block.to(device), (0, 1)).view(torch.int32)[:, 0]
        start += len(block)
    return pixels


def _check_memory(needed: int, device: torch.device) -> None:
    if device.type != "cuda":
        return
    free, total = torch.cuda.mem_get_info(device)
    if needed > free / 2:  # the network needs memory too
        raise CovpoolError(
            f'data.cache = "gpu" needs {needed / 2**30:.1f} GiB for the images; {free / 2**30:.1f} of '
            f'{total / 2**30:.1f} GiB are free on {device}: use a smaller augment.resize, or cache = "ram"'
        )
