"""Corruptions of test images, each at one strength: blur, noise, JPEG compression, occlusion."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from covpool._cores import usable_cores
from covpool._errors import require

SIGMA = 2.0  # of the blur, in pixels
NOISE = 0.1  # standard deviation, of values from 0 to 1
QUALITY = 15  # of the JPEG compression
COVERED = 0.5  # side of the gray square, as a fraction of the image's


def _blur(x: Tensor, generator: torch.Generator) -> Tensor:
    functional = require("torchvision.transforms.functional", "models")
    blurred: Tensor = functional.gaussian_blur(x, [13, 13], [SIGMA, SIGMA])
    return blurred


def _noise(x: Tensor, generator: torch.Generator) -> Tensor:
    return (x + NOISE * torch.randn(x.shape, generator=generator).to(x)).clamp(0, 1)


def _jpeg(x: Tensor, generator: torch.Generator) -> Tensor:
    codec = require("torchvision.io", "models")
    images = (x * 255).round().byte().cpu()
    with ThreadPoolExecutor(usable_cores()) as threads:
        found = list(threads.map(lambda image: codec.decode_jpeg(codec.encode_jpeg(image, quality=QUALITY)), images))
    return torch.stack(found).to(x) / 255


def _occlusion(x: Tensor, generator: torch.Generator) -> Tensor:
    side = round(COVERED * x.shape[-1])
    x = x.clone()
    for image in x:
        top, left = torch.randint(x.shape[-1] - side + 1, (2,), generator=generator).tolist()
        image[:, top : top + side, left : left + side] = 0.5
    return x


CORRUPTIONS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "blur": _blur,
    "noise": _noise,
    "JPEG": _jpeg,
    "occlusion": _occlusion,
}


def corrupt(x: Tensor, name: str, seed: int) -> Tensor:  # (b, 3, s, s), values from 0 to 1
    """Corrupt a batch of images; the same seed gives the same result.

    >>> corrupt(torch.zeros(1, 3, 8, 8), "occlusion", seed=0).count_nonzero().item()
    48
    """
    return CORRUPTIONS[name](x, torch.Generator().manual_seed(seed))
